"""Which ready job goes next: priority by virtual age, then stride fairness across tenants.

Jobs of one tenant, type and priority form a lane. A lane's level is the highest priority whose
head start it has reached by its own head start plus the time it was last served or began to
wait: a starved batch lane rises, a lane that is being served does not, however long its backlog.
Among lanes of one level the tenant with the lowest pass goes first; every start costs its
tenant one, and what it has running counts too (Waldspurger and Weihl, "Stride Scheduling").
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from streams.topology.model import Priority


@dataclass(frozen=True, slots=True, order=True)
class Ready:
    """A job that waits for a slot; `ready_at` in milliseconds, ties go by id."""

    ready_at: int
    job_id: str
    tenant_id: str
    type: str
    priority: str


@dataclass(slots=True)
class Lane:
    """The ready jobs of one tenant, type and priority, oldest first."""

    tenant_id: str
    type: str
    head_start: float
    served_at: int = 0
    jobs: list[Ready] = field(default_factory=list)

    def waited_seconds(self, now: int) -> float:
        return max(0, now - max(self.served_at, self.jobs[0].ready_at)) / 1000


class ReadyQueue:
    """The ready jobs of one pool in one partition."""

    def __init__(self, priorities: Mapping[str, Priority]) -> None:
        self._head_start = {p.name: p.head_start_seconds for p in priorities.values()}
        self._levels = sorted(self._head_start.values())
        self._lanes: dict[tuple[str, str, str], Lane] = {}
        self._members: dict[str, Ready] = {}
        self._passes: dict[str, int] = {}
        self._running: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._members

    def push(self, ready: Ready) -> None:
        """Add a job; one that is there already stays as it is."""
        if ready.job_id in self._members:
            return
        self._members[ready.job_id] = ready
        key = (ready.tenant_id, ready.type, ready.priority)
        lane = self._lanes.get(key)
        if lane is None:
            head_start = self._head_start.get(ready.priority, 0)
            lane = self._lanes[key] = Lane(ready.tenant_id, ready.type, head_start)
            self._join(ready.tenant_id)
        heappush(lane.jobs, ready)

    def remove(self, job_id: str) -> None:
        """Forget a job, if it is here."""
        self._members.pop(job_id, None)

    def take(self, now: int, allowed: Callable[[Lane], bool]) -> Ready | None:
        """Remove and return the job to start next among the lanes that are allowed."""
        self._prune()
        lanes = [lane for lane in self._lanes.values() if allowed(lane)]
        if not lanes:
            return None
        lane = min(lanes, key=lambda candidate: self._order(candidate, now))
        ready = heappop(lane.jobs)
        del self._members[ready.job_id]
        lane.served_at = now
        self._passes[lane.tenant_id] += 1
        return ready

    def started(self, tenant_id: str) -> None:
        self._running[tenant_id] += 1

    def ended(self, tenant_id: str) -> None:
        self._running[tenant_id] -= 1

    def oldest(self) -> int | None:
        """When the longest waiting job became ready."""
        self._prune()
        return min((lane.jobs[0].ready_at for lane in self._lanes.values()), default=None)

    def lanes(self) -> list[Lane]:
        """Lanes with at least one job."""
        self._prune()
        return list(self._lanes.values())

    def _order(self, lane: Lane, now: int) -> tuple[int, int, Ready]:
        level = bisect_right(self._levels, lane.head_start + lane.waited_seconds(now))
        charge = self._passes[lane.tenant_id] + self._running[lane.tenant_id]
        return (-level, charge, lane.jobs[0])

    def _join(self, tenant_id: str) -> None:
        """A tenant that comes back starts level with the others, not with credit saved up."""
        active = [self._passes[lane.tenant_id] for lane in self._lanes.values() if lane.jobs]
        self._passes[tenant_id] = max(self._passes.get(tenant_id, 0), min(active, default=0))

    def _prune(self) -> None:
        for key, lane in list(self._lanes.items()):
            while lane.jobs and self._members.get(lane.jobs[0].job_id) is not lane.jobs[0]:
                heappop(lane.jobs)
            if not lane.jobs:
                del self._lanes[key]
