"""The order of ready jobs in plain O(n) code: what `ReadyQueue` is compared with.

Every take looks at every lane, as the queue itself did once, and tenants are kept for ever.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from streams.fairness import stride
from streams.fairness.ready_queue import Ready
from streams.topology.model import Priority


@dataclass(slots=True)
class PlainLane:
    tenant_id: str
    type: str
    head_start: float
    served_at: int = 0
    jobs: list[Ready] = field(default_factory=list)

    def waited_seconds(self, now: int) -> float:
        return max(0, now - max(self.served_at, self.jobs[0].ready_at)) / 1000


class PlainQueue:
    """Lanes, passes and the floor, all worked out anew at each call."""

    def __init__(self, priorities: Mapping[str, Priority], free: Callable[[str], bool]) -> None:
        self._head_start = {p.name: p.head_start_seconds for p in priorities.values()}
        self._levels = sorted(self._head_start.values())
        self._free = free
        self._handled: set[str] = set()
        self._lanes: dict[tuple[str, str, str], PlainLane] = {}
        self._members: dict[str, Ready] = {}
        self._passes: Counter[str] = Counter()
        self._weights: dict[str, float] = {}
        self._running: Counter[str] = Counter()
        self._ordered: set[str] = set()
        self._floor = 0
        self._lag = stride.LAG

    def __len__(self) -> int:
        return len(self._members)

    def push(self, ready: Ready) -> None:
        if ready.job_id in self._members:
            return
        self._members[ready.job_id] = ready
        key = (ready.tenant_id, ready.type, ready.priority)
        if key not in self._lanes:
            head_start = self._head_start.get(ready.priority, 0)
            self._lanes[key] = PlainLane(ready.tenant_id, ready.type, head_start)
        heappush(self._lanes[key].jobs, ready)
        self._settle()

    def remove(self, job_id: str) -> None:
        self._members.pop(job_id, None)
        self._settle()

    def take(self, now: int, types: Collection[str]) -> Ready | None:
        lanes = [lane for lane in self._in_order() if lane.type in types]
        if not lanes:
            return None
        lane = min(lanes, key=lambda candidate: self._order(candidate, now))
        ready = heappop(lane.jobs)
        del self._members[ready.job_id]
        lane.served_at = now
        self._charge(lane.tenant_id)
        self._settle()
        return ready

    def started(self, tenant_id: str) -> None:
        self._running[tenant_id] += 1
        self._settle()

    def ended(self, tenant_id: str) -> None:
        self._running[tenant_id] -= 1
        self._settle()

    def weigh(self, tenant_id: str, weight: float) -> None:
        self._weights[tenant_id] = weight
        self._lag = max(self._lag, round(stride.START / weight))
        self._settle()

    def capped(self, tenant_id: str) -> None:
        self._settle()

    def handle(self, types: Collection[str], now: int) -> None:
        self._handled = set(types)
        self._settle()

    def oldest(self) -> int | None:
        return min((ready.ready_at for ready in self._members.values()), default=None)

    def by_type(self) -> dict[str, int]:
        return dict(Counter(ready.type for ready in self._members.values()))

    def by_tenant(self) -> dict[str, int]:
        return dict(Counter(ready.tenant_id for ready in self._members.values()))

    def needed(self) -> set[str]:
        """Tenants that wait, run, or were served more often than the floor says."""
        ahead = {tenant for tenant, passes in self._passes.items() if passes > self._floor}
        running = {tenant for tenant, count in self._running.items() if count}
        return ahead | running | {ready.tenant_id for ready in self._members.values()}

    def _order(self, lane: PlainLane, now: int) -> tuple[int, int, Ready]:
        level = bisect_right(self._levels, lane.head_start + lane.waited_seconds(now))
        charge = self._passes[lane.tenant_id] + self._all_running(lane.tenant_id)
        return (-level, charge, lane.jobs[0])

    def _stride(self, tenant_id: str) -> int:
        return round(stride.START / self._weights.get(tenant_id, 1))

    def _all_running(self, tenant_id: str) -> int:
        return self._running[tenant_id] * self._stride(tenant_id)

    def _charge(self, tenant_id: str) -> None:
        lowest = self._highest() - self._lag - self._all_running(tenant_id)
        self._passes[tenant_id] = max(self._passes[tenant_id], lowest) + self._stride(tenant_id)

    def _highest(self) -> int:
        return max(self._passes.values(), default=0)

    def _in_order(self) -> list[PlainLane]:
        return [
            lane
            for lane in self._lanes.values()
            if lane.type in self._handled and self._free(lane.tenant_id)
        ]

    def _settle(self) -> None:
        self._prune()
        ordered = {lane.tenant_id for lane in self._in_order()}
        for tenant in ordered - self._ordered:
            self._passes[tenant] = max(self._passes[tenant], self._floor)
        self._ordered = ordered
        lowest = min((self._passes[tenant] for tenant in ordered), default=None)
        highest = self._highest()
        lowest = highest if lowest is None else lowest
        self._floor = max(self._floor, lowest, highest - self._lag)

    def _prune(self) -> None:
        for key, lane in list(self._lanes.items()):
            while lane.jobs and self._members.get(lane.jobs[0].job_id) is not lane.jobs[0]:
                heappop(lane.jobs)
            if not lane.jobs:
                del self._lanes[key]
