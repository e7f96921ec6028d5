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
from itertools import chain, islice, product
from typing import NamedTuple

from sortedcontainers import SortedList

from streams.lanes import Entry, Lane, Levels, TypeLanes
from streams.passes import Passes, Tenant
from streams.topology.model import Priority

_RISES = 64
"""Lanes that rise in one call: after a flood of tenants the last ones rise some calls later."""
_RISES_A_TAKE = 4


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
        self._numbers: dict[tuple[str, str, str], int] = {}  # by tenant, type and priority
        self._types: dict[str, TypeLanes] = defaultdict(TypeLanes)
        self._handled: set[str] = set()
        self._passes = Passes()
        self._moved: dict[int, Lane] = {}  # lanes that are yet to be put where they belong
        self._due = SortedList()  # (when, lane's number): levels that are to be looked at
        self._oldest = SortedList()  # `Lane.oldest` of every lane

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._members

    def push(self, ready: Ready) -> None:
        """Add a job; one that is there already stays as it is."""
        ready_at, job_id, tenant_id, type_, priority = ready
        if job_id in self._members:
            return
        number = self._numbers.get((tenant_id, type_, priority))
        lane = self._new_lane(tenant_id, type_, priority) if number is None else self._lanes[number]
        entry = self._members[job_id] = (ready_at, job_id, lane.number)
        self._types[type_].jobs += 1
        if lane.push(entry):
            self._keep_oldest(lane)
            if number is None:
                self._arrange(lane.tenant)
            else:
                self._moved[number] = lane

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
            lanes = self._types.get(type_)
            found = None if lanes is None else lanes.best()
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
        for type_ in self._handled - types:
            self._close(self._types[type_])
            if not self._types[type_].lanes:
                del self._types[type_]
        self._handled = set(types)

    def advance(self, now: int, rises: int = _RISES) -> None:
        """Let lanes rise that have waited long enough, and put those that moved in order."""
        self._now = max(self._now, now)
        while rises and self._due and self._due[0][0] <= self._now:
            rises -= 1
            lane = self._lanes[self._due.pop(0)[1]]
            lane.due = None
            self._moved[lane.number] = lane
        for lane in self._moved.values():
            self._place(lane)
        self._moved.clear()

    def oldest(self) -> int | None:
        """When the longest waiting job became ready."""
        while self._oldest:
            entry: Entry = self._oldest[0]
            lane = self._lanes[entry[2]]
            if lane.jobs[0] is entry:
                return entry[0]
            self._keep_oldest(lane)
        return None

    def startable(self) -> set[str]:
        """Types that some worker handles and of which a job may start."""
        return {type_ for type_ in self._handled if self._types[type_].best() is not None}

    def by_type(self) -> dict[str, int]:
        """How many jobs of each type wait."""
        return {type_: lanes.jobs for type_, lanes in self._types.items() if lanes.jobs}

    def by_type_of(self, tenant_id: str) -> dict[str, int]:
        """How many jobs of each type wait of one tenant."""
        found: dict[str, int] = {}
        for type_, priority in product(self._types, self._levels.priorities()):
            number = self._numbers.get((tenant_id, type_, priority))
            if number is not None:
                found[type_] = found.get(type_, 0) + self._lanes[number].waiting
        return found

    def ready_since(self, type_: str, moment: int, limit: int) -> list[str]:
        """At most `limit` waiting jobs of a type that became ready by `moment` (milliseconds)."""
        lanes = self._types[type_].lanes if type_ in self._types else {}
        jobs = chain.from_iterable(
            lane.jobs for lane in lanes.values() if lane.jobs[0][0] <= moment
        )
        due = (job for job in jobs if job[0] <= moment and self._members.get(job[1]) is job)
        return [job_id for _, job_id, _ in islice(due, limit)]

    def tenants(self) -> int:
        """How many tenants are remembered."""
        return len(self._passes.tenants)

    def _new_lane(self, tenant_id: str, type_: str, priority: str) -> Lane:
        tenant, lanes = self._passes.of(tenant_id), self._types[type_]
        self._made = number = self._made + 1
        lane = Lane(number, tenant, type_, priority, self._levels.head_start(priority))
        self._lanes[number] = lanes.lanes[number] = lane
        self._numbers[tenant.id, type_, priority] = number
        tenant.waiting += 1
        if lanes.handled:
            tenant.lanes.append(lane)
        return lane

    def _drop(self, lane: Lane) -> None:
        """A job of a lane is no member any more."""
        self._types[lane.type].jobs -= 1
        lane.drop(self._members)
        if not lane.waiting:
            self._forget(lane)
        self._arrange(lane.tenant)

    def _forget(self, lane: Lane) -> None:
        """A lane has no jobs any more."""
        lanes, tenant = self._types[lane.type], lane.tenant
        lanes.displace(lane)
        self._keep_due(lane, None)
        self._oldest.remove(lane.oldest)
        self._moved.pop(lane.number, None)
        del self._numbers[tenant.id, lane.type, lane.priority]
        del self._lanes[lane.number], lanes.lanes[lane.number]
        tenant.waiting -= 1
        if lanes.handled:
            tenant.lanes.remove(lane)
        elif not lanes.lanes:
            del self._types[lane.type]

    def _arrange(self, tenant: Tenant) -> None:
        """A tenant's charge or cap changed: its lanes are to be moved, or set aside."""
        self._passes.order(tenant, bool(tenant.lanes) and self._free(tenant.id))
        for lane in tenant.lanes:
            self._moved[lane.number] = lane

    def _place(self, lane: Lane) -> None:
        lanes, tenant = self._types[lane.type], lane.tenant
        if not (tenant.ordered and lanes.handled):
            lanes.displace(lane)
            return
        level, due = self._levels.of(lane, self._now)
        lanes.place(lane, level, lane.key_of(tenant.passes + tenant.running))
        if due is not None and (lane.due is None or due < lane.due):
            self._keep_due(lane, due)

    def _open(self, lanes: TypeLanes) -> None:
        """Put all lanes of a type in order, much cheaper than one by one."""
        lanes.open(len(self._levels))
        placed: dict[int, list[Lane]] = defaultdict(list)
        for lane in lanes.lanes.values():
            tenant = lane.tenant
            tenant.lanes.append(lane)
            self._passes.order(tenant, self._free(tenant.id))
            if tenant.ordered:
                lane.level, lane.due = self._levels.of(lane, self._now)
                lane.key = lane.key_of(tenant.passes + tenant.running)
                placed[lane.level].append(lane)
        for level, own in placed.items():
            lanes.place_all(level, own)
            self._due.update((lane.due, lane.number) for lane in own if lane.due is not None)

    def _close(self, lanes: TypeLanes) -> None:
        lanes.close()
        for lane in lanes.lanes.values():
            lane.key = None
            self._keep_due(lane, None)
            lane.tenant.lanes.remove(lane)
            self._arrange(lane.tenant)

    def _keep_due(self, lane: Lane, due: int | None) -> None:
        if lane.due is not None:
            self._due.remove((lane.due, lane.number))
        lane.due = due
        if due is not None:
            self._due.add((due, lane.number))

    def _keep_oldest(self, lane: Lane) -> None:
        if lane.oldest is not None:
            self._oldest.remove(lane.oldest)
        lane.oldest = lane.jobs[0]
        self._oldest.add(lane.oldest)
