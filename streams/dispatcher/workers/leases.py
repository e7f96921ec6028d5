"""Keeps the living leases of one partition: by job, by worker, and in the order of their ends.

All times are this process's monotonic ones, in seconds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

from sortedcontainers import SortedList

from streams.dispatcher.workers.credits import Worker
from streams.serde.ids import split_worker


@dataclass(slots=True)
class ActiveLease:
    """A living lease.

    - `confirmed`: its worker has spoken for it, and not only to say that its run still waits for
      other runs to end, and its job's record says so; `given_up`: its worker is gone.
    - `claimed`: its worker has claimed an effect for it, which the ledger says, and not the job.
    - `dropped`: its worker has spoken for it, and its newest heartbeat no longer lists it.
    - `cancel`: why its job is being cancelled.
    - `sent_to`: the connection over which it goes once the present transaction is committed; `via`
      is that connection for good, and None for a lease of an earlier process.
    - `due`: when its end is checked again, which is not after it ends.
    """

    job_id: str
    epoch: int
    worker_id: str
    tenant_id: str
    type: str
    pool: str
    ends_at: float
    confirmed: bool = False
    claimed: bool = False
    cancel: str | None = None
    given_up: bool = False
    dropped: bool = False
    sent_to: Worker | None = None
    via: Worker | None = None
    due: float = 0.0

    @property
    def began(self) -> bool:
        """Whether its worker has spoken for its run, as far as this process knows."""
        return self.confirmed or self.claimed


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A lease that ended with its worker; `reason` is one word for the metric."""

    lease: ActiveLease
    why: str
    reason: str


class Leases:
    """The living leases, and those of gone workers that are still to be taken back.

    Every change costs O(log n).
    """

    def __init__(self) -> None:
        self.running: dict[str, ActiveLease] = {}
        self._by_worker: dict[str, dict[str, ActiveLease]] = {}
        self._boots: dict[str, set[str]] = {}  # workers that hold leases, by instance
        self._types: Counter[tuple[str, str]] = Counter()
        self._order = SortedList()  # (`ActiveLease.due`, job)
        self._fresh_until = float("-inf")
        self._given_up: deque[GivenUp] = deque()

    def add(self, lease: ActiveLease) -> None:
        """Add a living lease."""
        self.remove(lease.job_id)
        lease.due = lease.ends_at
        self.running[lease.job_id] = lease
        self._by_worker.setdefault(lease.worker_id, {})[lease.job_id] = lease
        self._boots.setdefault(split_worker(lease.worker_id)[0], set()).add(lease.worker_id)
        self._types[lease.pool, lease.type] += 1
        self._order.add((lease.due, lease.job_id))

    def remove(self, job_id: str) -> ActiveLease | None:
        """Remove and return the lease of a job, if there is one."""
        lease = self.running.pop(job_id, None)
        if lease is None:
            return None
        self._order.remove((lease.due, job_id))
        held = self._by_worker[lease.worker_id]
        del held[job_id]
        if not held:
            self._empty(lease.worker_id)
        self._types[lease.pool, lease.type] -= 1
        if not self._types[lease.pool, lease.type]:
            del self._types[lease.pool, lease.type]
        return lease

    def of(self, worker_id: str) -> list[ActiveLease]:
        """The leases of a worker."""
        return list(self._by_worker.get(worker_id, {}).values())

    def boots(self, instance: str) -> Iterable[str]:
        """Processes of an instance that hold leases."""
        return self._boots.get(instance, ())

    def types(self, pool: str) -> set[str]:
        """Job types of which a pool's workers hold leases."""
        return {type_ for of, type_ in self._types if of == pool}

    def running_in(self, pool: str) -> int:
        """How many leases of a pool live."""
        return sum(count for (of, _), count in self._types.items() if of == pool)

    def give_up(self, leases: Iterable[ActiveLease], why: str, reason: str) -> None:
        """Have leases taken back in parts, because a worker may have held thousands."""
        for lease in leases:
            if not lease.given_up:
                lease.given_up = True
                self._given_up.append(GivenUp(lease, why, reason))

    def take_back(self, limit: int) -> list[GivenUp]:
        """Remove and return at most `limit` of the leases that were given up."""
        return [self._given_up.popleft() for _ in range(min(limit, len(self._given_up)))]

    def put_back(self, some: Iterable[GivenUp]) -> None:
        """Let leases be taken back once more, since that was undone."""
        self._given_up.extendleft(reversed(list(some)))

    def fresh_terms(self, until: float) -> None:
        """Let no lease end before `until`."""
        self._fresh_until = until

    def overdue(self, now: float, limit: int) -> list[ActiveLease]:
        """At most `limit` leases that have ended, in the order of their ends."""
        found: list[ActiveLease] = []
        while len(found) < min(limit, len(self._order)):
            due, job_id = self._order[len(found)]
            if due > now:
                break
            lease = self.running[job_id]
            lease.ends_at = max(lease.ends_at, self._fresh_until)
            if lease.ends_at == due:
                found.append(lease)
                continue
            self._order.remove((due, job_id))
            lease.due = lease.ends_at
            self._order.add((lease.due, job_id))
        return found

    def _empty(self, worker_id: str) -> None:
        del self._by_worker[worker_id]
        instance = split_worker(worker_id)[0]
        self._boots[instance].discard(worker_id)
        if not self._boots[instance]:
            del self._boots[instance]
