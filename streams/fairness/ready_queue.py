"""Chooses the next ready job: priority by virtual age, then stride fairness across tenants.

Jobs of one tenant, type and priority form a lane (`lanes`). A starved batch lane rises; a lane that
is being served does not rise, however long its backlog is. Among lanes of one level the tenant with
the lowest charge goes first (`stride`): its pass, which grows with every start, plus the number of
its running jobs. Lanes of a type that no worker handles, and of a tenant at its cap, are set aside.

With n waiting jobs each call costs O(log n) plus work for each of the tenant's few lanes. `handle`
also costs work for each lane of the types that change, and `take` for each type it is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from types import MappingProxyType
from typing import NamedTuple

from streams.fairness.aging import Rises
from streams.fairness.job_heap import Entry
from streams.fairness.lanes import Key, Lane, Levels, Tenants, TypeLanes
from streams.fairness.oldest import Oldest
from streams.fairness.stride import Passes, Tenant
from streams.topology.model import Priority

_RISES = 64
"""At most this many lanes rise in one call; after a flood of tenants the last rise calls later."""
_RISES_A_TAKE = 4
_ALL: Mapping[str, Tenants] = MappingProxyType({})
_OPENED = 2_000
"""One call puts at most this many lanes of a newly handled type in order: some 10 ms."""


class Ready(NamedTuple):
    """A job that waits for a slot; `ready_at` is in milliseconds, and the id breaks ties."""

    ready_at: int
    job_id: str
    tenant_id: str
    type: str
    priority: str


class ReadyQueue:
    """The ready jobs of one pool in one partition.

    `room` returns how many more jobs a tenant's caps let start; call `capped` when that changes.
    `now` is in milliseconds and never runs backwards.
    """

    def __init__(self, priorities: Mapping[str, Priority], room: Callable[[str], float]) -> None:
        self._levels = Levels(priorities)
        self._room = room
        self._now = 0
        self._made = 0
        self._members: dict[str, Entry] = {}
        self._lanes: dict[int, Lane] = {}
        self._types: dict[str, TypeLanes] = defaultdict(TypeLanes)
        self._handled: set[str] = set()
        self._passes = Passes()
        self._moved: dict[int, Lane] = {}  # lanes whose place in the order must be updated
        self._opening: dict[int, Lane] = {}  # lanes whose type is newly handled
        self._rises = Rises()
        self._oldest = Oldest(self._lanes)
        self.within_caps = 0
        """How many waiting jobs could start at once as far as their tenants' caps go."""

    def __len__(self) -> int:
        return len(self._members)

    def push(self, ready: Ready) -> None:
        """Add a job; a job that is already in the queue stays as it is."""
        ready_at, job_id, tenant_id, type_, priority = ready
        if job_id in self._members:
            return
        lanes = self._types[type_]
        known = lanes.get(tenant_id, priority)
        lane = known or self._new_lane(tenant_id, type_, priority)
        entry = self._members[job_id] = (ready_at, job_id, lane.number)
        lanes.jobs += 1
        lane.tenant.jobs += 1
        if lane.push(entry):
            self._oldest.older(lane)
            if lanes.handled:
                self._moved[lane.number] = lane
            self._arrange(lane.tenant)
        else:
            self._count(lane.tenant)

    def remove(self, job_id: str) -> None:
        """Forget a job, if it is here."""
        entry = self._members.pop(job_id, None)
        if entry is not None:
            self._drop(self._lanes[entry[2]])

    def take(self, now: int, types: Iterable[str]) -> Ready | None:
        """Remove and return the job to start next among those of these types."""
        found = self.first(now, types)
        if found is not None:
            self.serve(found.job_id)
        return found

    def first(
        self, now: int, types: Iterable[str], only: Mapping[str, Tenants] = _ALL
    ) -> Ready | None:
        """The job to start next among those of these types.

        `only` names the tenants whose jobs of a type may start; None: of all.
        """
        self.advance(now, _RISES_A_TAKE)
        best = None
        for type_ in types:
            found = self._first(type_, only.get(type_))
            if found is not None and (best is None or found < best):
                best = found
        if best is None:
            return None
        _, ready_at, job_id, number = best[1]
        lane = self._lanes[number]
        return Ready(ready_at, job_id, lane.tenant.id, lane.type, lane.priority)

    def serve(self, job_id: str) -> None:
        """Remove the job that `first` returned, because it starts."""
        lane = self._lanes[self._members.pop(job_id)[2]]
        lane.served_at = self._now
        self._passes.served(lane.tenant)
        self._drop(lane)

    def started(self, tenant_id: str) -> None:
        """Note that one more job of this tenant runs."""
        tenant = self._passes.of(tenant_id)
        tenant.running += 1
        self._arrange(tenant)

    def ended(self, tenant_id: str) -> None:
        """Note that a job of this tenant no longer runs."""
        tenant = self._passes.of(tenant_id)
        tenant.running -= 1
        self._arrange(tenant)

    def weigh(self, tenant_id: str, weight: float) -> None:
        """Let a tenant start as many jobs as its weight says, while others wait too."""
        tenant = self._passes.weigh(tenant_id, weight)
        if tenant is not None:
            self._arrange(tenant)

    def capped(self, tenant_id: str) -> None:
        """Check again whether a tenant is below its caps."""
        tenant = self._passes.tenants.get(tenant_id)
        if tenant is not None:
            self._arrange(tenant)

    def handle(self, types: Set[str], now: int) -> None:
        """Set the types that some worker of the pool handles; no worker handles any other."""
        self._now = max(self._now, now)
        for type_ in types - self._handled:
            self._open(self._types[type_])
        self._enter_some()
        for type_ in self._handled - types:
            self._close(self._types[type_])
            if not self._types[type_].lanes:
                del self._types[type_]
        self._handled = set(types)

    def advance(self, now: int, rises: int = _RISES) -> None:
        """Raise lanes that have waited long enough, and update the places of moved lanes."""
        self._now = max(self._now, now)
        for number in self._rises.due(self._now, rises):
            lane = self._moved[number] = self._lanes[number]
            lane.due = None
        self._enter_some()
        for lane in self._moved.values():
            self._place(lane)
        self._moved.clear()

    def oldest(self) -> int | None:
        """When the longest waiting job became ready."""
        lane = self._oldest.first()
        return None if lane is None else lane.jobs[0][0]

    def startable(self) -> set[str]:
        """Types that some worker handles and that have a job which may start."""
        return {type_ for type_ in self._handled if self._types[type_].best() is not None}

    def has(self, type_: str, tenants: Tenants) -> bool:
        """Whether a job of this type and of one of these tenants may start; None: of any."""
        return self._first(type_, tenants) is not None

    def by_type(self) -> dict[str, int]:
        """The number of waiting jobs of each type."""
        return {type_: lanes.jobs for type_, lanes in self._types.items() if lanes.jobs}

    def tenants(self) -> Set[str]:
        """Tenants that have waiting or running jobs, or had some recently."""
        return self._passes.tenants.keys()

    def by_type_of(self, tenant_id: str) -> dict[str, int]:
        """The number of one tenant's waiting jobs of each type."""
        found = {type_: lanes.jobs_of(tenant_id) for type_, lanes in self._types.items()}
        return {type_: jobs for type_, jobs in found.items() if jobs}

    def ready_since(self, type_: str, moment: int, limit: int) -> list[str]:
        """At most `limit` waiting jobs of a type that became ready by `moment` (milliseconds)."""
        lanes = self._types.get(type_)
        return lanes.ready_since(moment, limit, self._members) if lanes else []

    def _new_lane(self, tenant_id: str, type_: str, priority: str) -> Lane:
        tenant, lanes = self._passes.of(tenant_id), self._types[type_]
        self._made = number = self._made + 1
        lane = self._lanes[number] = Lane(number, tenant, type_, priority)
        lanes.add(lane)
        tenant.waiting += 1
        if lanes.handled:
            tenant.lanes.append(lane)
        return lane

    def _first(self, type_: str, tenants: Tenants = None) -> tuple[int, Key] | None:
        """The lane of a type and of some tenants to serve next, in the form of `TypeLanes.best`.

        Grown charges are applied only here. Until then such a lane is too far ahead in the order.
        """
        lanes = self._types.get(type_)
        while lanes is not None and (found := lanes.best(tenants)) is not None:
            lane = self._lanes[found[1][3]]
            if found[1][0] == lane.tenant.charge:
                return found
            self._place(lane)
        return None

    def _drop(self, lane: Lane) -> None:
        """Update a lane after one of its jobs left the members."""
        self._types[lane.type].jobs -= 1
        lane.tenant.jobs -= 1
        lane.drop(self._members)
        if lane.waiting:
            self._moved[lane.number] = lane
        else:
            self._forget(lane)
        self._arrange(lane.tenant)

    def _forget(self, lane: Lane) -> None:
        """Remove a lane that has no jobs any more."""
        lanes, tenant = self._types[lane.type], lane.tenant
        lanes.displace(lane)
        self._rises.expect(lane, None)
        self._oldest.forget(lane)
        self._moved.pop(lane.number, None)
        del self._lanes[lane.number]
        lanes.remove(lane)
        tenant.waiting -= 1
        if self._opening.pop(lane.number, None) is None and lanes.handled:
            tenant.lanes.remove(lane)
        elif not lanes.lanes and not lanes.handled:
            del self._types[lane.type]

    def _arrange(self, tenant: Tenant) -> None:
        """Mark a tenant's lanes to be moved or set aside, after its charge or cap changed."""
        tenant.room = self._room(tenant.id)
        self._count(tenant)
        ordered = bool(tenant.lanes) and tenant.room > 0
        self._passes.order(tenant, ordered)
        for lane in tenant.lanes:
            if not ordered or lane.key is None or tenant.charge < lane.key[0]:
                self._moved[lane.number] = lane

    def _count(self, tenant: Tenant) -> None:
        within = int(min(tenant.jobs, tenant.room))
        self.within_caps += within - tenant.within_caps
        tenant.within_caps = within

    def _place(self, lane: Lane) -> None:
        lanes, tenant = self._types[lane.type], lane.tenant
        if not (tenant.ordered and lanes.handled) or lane.number in self._opening:
            lanes.displace(lane)
            return
        level, due = self._levels.of(lane, self._now)
        lanes.place(lane, level, lane.key_of(tenant.charge))
        if due is not None and (lane.due is None or due < lane.due):
            self._rises.expect(lane, due)

    def _open(self, lanes: TypeLanes) -> None:
        lanes.open(len(self._levels))
        self._opening.update((lane.number, lane) for lane in lanes.all())

    def _enter_some(self) -> None:
        """Put some lanes of newly handled types in the order; later calls do the rest."""
        for _ in range(min(_OPENED, len(self._opening))):
            _, lane = self._opening.popitem()
            lane.tenant.lanes.append(lane)
            self._arrange(lane.tenant)

    def _close(self, lanes: TypeLanes) -> None:
        lanes.close()
        for lane in lanes.all():
            lane.key = None
            self._rises.expect(lane, None)
            if self._opening.pop(lane.number, None) is None:
                lane.tenant.lanes.remove(lane)
                self._arrange(lane.tenant)
