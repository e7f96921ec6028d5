"""Which ready job goes next: priority by virtual age, then stride fairness across tenants.

Jobs of one tenant, type and priority form a lane (`lanes`). A starved batch lane rises, a lane that
is being served does not, however long its backlog. Among lanes of one level the tenant with the
lowest pass goes first (`passes`); every start costs its tenant one, and what it has running counts
too. Lanes of a type that no worker handles, and of a tenant at its cap, are set aside.

With n waiting jobs each call costs O(log n) and the tenant's few lanes, `handle` those of the types
that change, and `take` the types that it is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from typing import NamedTuple

from streams.fairness.aging import Rises
from streams.fairness.lanes import Entry, Key, Lane, Levels, TypeLanes
from streams.fairness.oldest import Oldest
from streams.fairness.stride import Passes, Tenant
from streams.topology.model import Priority

_RISES = 64
"""Lanes that rise in one call: after a flood of tenants the last ones rise some calls later."""
_RISES_A_TAKE = 4
_OPENED = 2_000
"""Lanes that are put in order in one call after a first worker came: some 10 ms."""


class Ready(NamedTuple):
    """A job that waits for a slot; `ready_at` in milliseconds, ties go by id."""

    ready_at: int
    job_id: str
    tenant_id: str
    type: str
    priority: str


class ReadyQueue:
    """The ready jobs of one pool in one partition; `free` tells whether a tenant is below its caps.

    `now` is in milliseconds and never runs backwards.
    """

    def __init__(self, priorities: Mapping[str, Priority], free: Callable[[str], bool]) -> None:
        self._levels = Levels(priorities)
        self._free = free
        self._now = 0
        self._made = 0
        self._members: dict[str, Entry] = {}
        self._lanes: dict[int, Lane] = {}
        self._types: dict[str, TypeLanes] = defaultdict(TypeLanes)
        self._handled: set[str] = set()
        self._passes = Passes()
        self._moved: dict[int, Lane] = {}  # lanes that are yet to be put where they belong
        self._opening: dict[int, Lane] = {}  # those whose type is newly handled
        self._rises = Rises()
        self._oldest = Oldest(self._lanes)

    def __len__(self) -> int:
        return len(self._members)

    def push(self, ready: Ready) -> None:
        """Add a job; one that is there already stays as it is."""
        ready_at, job_id, tenant_id, type_, priority = ready
        if job_id in self._members:
            return
        lanes = self._types[type_]
        known = lanes.get(tenant_id, priority)
        lane = known or self._new_lane(tenant_id, type_, priority)
        entry = self._members[job_id] = (ready_at, job_id, lane.number)
        lanes.jobs += 1
        if lane.push(entry):
            self._oldest.older(lane)
            if lanes.handled:
                self._moved[lane.number] = lane
                self._arrange(lane.tenant)

    def remove(self, job_id: str) -> None:
        """Forget a job, if it is here."""
        entry = self._members.pop(job_id, None)
        if entry is not None:
            self._drop(self._lanes[entry[2]])

    def take(self, now: int, types: Iterable[str]) -> Ready | None:
        """Remove and return the job to start next among those of these types."""
        self.advance(now, _RISES_A_TAKE)
        best = None
        for type_ in types:
            found = self._first(type_)
            if found is not None and (best is None or found < best):
                best = found
        if best is None:
            return None
        _, ready_at, job_id, number = best[1]
        lane = self._lanes[number]
        lane.served_at = self._now
        self._passes.served(lane.tenant)
        del self._members[job_id]
        self._drop(lane)
        return Ready(ready_at, job_id, lane.tenant.id, lane.type, lane.priority)

    def started(self, tenant_id: str) -> None:
        """A job of this tenant runs."""
        tenant = self._passes.of(tenant_id)
        tenant.running += 1
        self._arrange(tenant)

    def ended(self, tenant_id: str) -> None:
        """A job of this tenant no longer runs."""
        tenant = self._passes.of(tenant_id)
        tenant.running -= 1
        self._arrange(tenant)

    def capped(self, tenant_id: str) -> None:
        """Whether a tenant is below its caps may have changed."""
        tenant = self._passes.tenants.get(tenant_id)
        if tenant is not None:
            self._arrange(tenant)

    def handle(self, types: Set[str], now: int) -> None:
        """Some worker of the pool handles these types, and none handles others."""
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
        """Let lanes rise that have waited long enough, and put those that moved in order."""
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
        """Types that some worker handles and of which a job may start."""
        return {type_ for type_ in self._handled if self._types[type_].best() is not None}

    def by_type(self) -> dict[str, int]:
        """How many jobs of each type wait."""
        return {type_: lanes.jobs for type_, lanes in self._types.items() if lanes.jobs}

    def tenants(self) -> Set[str]:
        """Tenants that have waiting or running jobs, or had some lately."""
        return self._passes.tenants.keys()

    def by_type_of(self, tenant_id: str) -> dict[str, int]:
        """How many jobs of each type wait of one tenant."""
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

    def _first(self, type_: str) -> tuple[int, Key] | None:
        """The lane of a type to serve next, as `TypeLanes.best` has it.

        A charge that has grown is looked at only here: until then its lane is too far ahead.
        """
        lanes = self._types.get(type_)
        while lanes is not None and (found := lanes.best()) is not None:
            lane = self._lanes[found[1][3]]
            if found[1][0] == lane.tenant.charge:
                return found
            self._place(lane)
        return None

    def _drop(self, lane: Lane) -> None:
        """A job of a lane is no member any more."""
        self._types[lane.type].jobs -= 1
        lane.drop(self._members)
        if lane.waiting:
            self._moved[lane.number] = lane
        else:
            self._forget(lane)
        self._arrange(lane.tenant)

    def _forget(self, lane: Lane) -> None:
        """A lane has no jobs any more."""
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
        """A tenant's charge or cap changed: its lanes are to be moved, or set aside."""
        ordered = bool(tenant.lanes) and self._free(tenant.id)
        self._passes.order(tenant, ordered)
        for lane in tenant.lanes:
            if not ordered or lane.key is None or tenant.charge < lane.key[0]:
                self._moved[lane.number] = lane

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
        """Lanes of types that are newly handled may be taken from, a part of them at a time."""
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
