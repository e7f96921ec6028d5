"""What is ready and what runs in one partition: derived from job records, rebuilt from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from streams.dispatcher.roster import Roster, Running, Worker, freest
from streams.fairness import Lane, Ready, ReadyQueue
from streams.limits import Concurrency
from streams.serde.records import Job
from streams.topology.model import Topology


class Board:
    """The ready queues of all pools, the living leases and the caps they fill."""

    def __init__(self, topology: Topology, roster: Roster) -> None:
        self._topology = topology
        self.roster = roster
        self._blocked: set[str] = set()
        self.clear()

    def clear(self) -> None:
        """Forget every job; what workers announced stays, and which tenants are blocked."""
        self.queues: dict[str, ReadyQueue] = {}
        self._caps = Concurrency(self._topology.limits)
        self.roster.running.clear()

    def ready(self, job: Job) -> None:
        """A job waits for a slot."""
        entry = Ready(job.ready_at, job.job_id, job.tenant_id, job.type, job.priority)
        self._queue(job.pool).push(entry)

    def unready(self, job: Job) -> None:
        """A job no longer waits for a slot."""
        self._queue(job.pool).remove(job.job_id)

    def block(self, tenant_id: str) -> None:
        """Lease none of a tenant's jobs until it is unblocked; those that run go on."""
        self._blocked.add(tenant_id)

    def unblock(self, tenant_id: str) -> None:
        """Lease the tenant's jobs again."""
        self._blocked.discard(tenant_id)

    def resume(self, job: Job, known: Running | None, whole_term: float) -> None:
        """A living lease, `known` as it was here or else until monotonic `whole_term`."""
        self.roster.resume(job, known, whole_term)
        self._count(job)

    def grant(self, job: Job, worker: Worker) -> None:
        """A slot of the worker is the job's."""
        self.roster.granted(job, worker)
        self._count(job)

    def off(self, job_id: str) -> None:
        """A lease is over; its caps are free again."""
        lease = self.roster.running.pop(job_id, None)
        if lease is not None:
            self._caps.ended(lease.tenant_id, lease.type)
            self._queue(lease.pool).ended(lease.tenant_id)

    def takeable(self, now: int, monotonic: float) -> Iterator[tuple[Ready, Worker]]:
        """Ready jobs with the worker each should go to; grant or drop one before the next."""
        for pool, queue in self.queues.items():
            while workers := self.roster.with_slot(pool, monotonic):
                types = {type_ for worker in workers for type_ in worker.handlers}
                entry = queue.take(now, lambda lane, types=types: self._may(lane, types))  # type: ignore[misc]
                worker = freest(workers, entry.type) if entry else None
                if entry is None or worker is None:
                    break
                yield entry, worker

    def waiting(self) -> Counter[tuple[str, str]]:
        """How many jobs wait in each pool for a worker of each type."""
        found: Counter[tuple[str, str]] = Counter()
        for pool, queue in self.queues.items():
            for lane in queue.lanes():
                found[pool, lane.type] += sum(entry.job_id in queue for entry in lane.jobs)
        return found

    def blocked(self) -> Counter[tuple[str, str, str]]:
        """How many jobs wait in each pool, of each type and blocked tenant."""
        found: Counter[tuple[str, str, str]] = Counter()
        for pool, queue in self.queues.items() if self._blocked else ():
            for lane in queue.lanes():
                if lane.tenant_id in self._blocked:
                    waiting = sum(entry.job_id in queue for entry in lane.jobs)
                    found[pool, lane.type, lane.tenant_id] += waiting
        return found

    def ready_since(self, pool: str, type_: str, moment: int, limit: int) -> list[str]:
        """At most `limit` jobs of a pool and type that became ready by `moment` (milliseconds)."""
        queue = self._queue(pool)
        lanes = [lane for lane in queue.lanes() if lane.type == type_]
        entries = (e for lane in lanes for e in lane.jobs if e.ready_at <= moment)
        return list(islice((e.job_id for e in entries if e.job_id in queue), limit))

    def depth(self) -> int:
        return sum(map(len, self.queues.values()))

    def oldest(self) -> int | None:
        """When the longest waiting job of any pool became ready, in milliseconds."""
        ages = (queue.oldest() for queue in self.queues.values())
        return min((age for age in ages if age is not None), default=None)

    def _may(self, lane: Lane, types: set[str]) -> bool:
        allowed = lane.type in types and lane.tenant_id not in self._blocked
        return allowed and self._caps.allows(lane.tenant_id, lane.type)

    def _count(self, job: Job) -> None:
        self._caps.started(job.tenant_id, job.type)
        self._queue(job.pool).started(job.tenant_id)

    def _queue(self, pool: str) -> ReadyQueue:
        if pool not in self.queues:
            self.queues[pool] = ReadyQueue(self._topology.priorities)
        return self.queues[pool]
