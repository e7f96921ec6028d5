"""Workers as one partition's dispatcher knows them: announced slots, living leases.

All clocks here are this process's monotonic one, in seconds. A lease ends a term after the
*reading* of the last heartbeat that listed it (or, until one does, of the heartbeat it answers).
The worker counts from the *sending* of the same heartbeats, so it always stops first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from streams.serde.records import Handler, Heartbeat, Job
from streams.topology.model import LeasePolicy

_FRESH_HEARTBEATS = 2.5


@dataclass(slots=True)
class Worker:
    """One worker process; `free` is what it announced less what it was given since."""

    worker_id: str
    pool: str
    work_partition: int
    heartbeat_id: str
    read_at: float
    free: int
    handlers: dict[str, Handler] = field(default_factory=dict)


@dataclass(slots=True)
class Running:
    """A living lease; `confirmed` once its worker has spoken for it, `given_up` once that is gone.

    It is `accompanied` where the newest heartbeat that lists it lists others, too. `cancel` is why
    its job is being cancelled; of a lease found in the store that is not known until somebody looks
    (`cancel_known`).
    """

    job_id: str
    epoch: int
    worker_id: str
    tenant_id: str
    type: str
    pool: str
    ends_at: float
    confirmed: bool = False
    cancel: str | None = None
    cancel_known: bool = False
    given_up: bool = False
    accompanied: bool = False


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A lease that is over with its worker; `reason` is one word for the metric."""

    lease: Running
    why: str
    reason: str


class Roster:
    """Who can take jobs, and who holds which; wholly derived, from heartbeats and job records."""

    def __init__(self, policy: LeasePolicy) -> None:
        self._policy = policy
        self._workers: dict[str, Worker] = {}
        self.running: dict[str, Running] = {}
        self.given_up: deque[GivenUp] = deque()
        """Leases of processes that are gone, yet to be taken back."""

    def heard(self, heartbeat: Heartbeat, heartbeat_id: str, now: float) -> list[Running]:
        """Take a heartbeat in; returns the leases of earlier boots of the same instance.

        Boots are ordered by their ids (UUIDv7): a process that announces itself under an
        instance's name takes its predecessor's place, and what that held is over.
        """
        if any(self._boot_order(other, heartbeat.worker_id) > 0 for other in self._workers):
            return []
        for earlier in [w for w in self._workers if self._boot_order(w, heartbeat.worker_id) < 0]:
            del self._workers[earlier]
        handlers = {handler.type: handler for handler in heartbeat.handlers}
        self._workers[heartbeat.worker_id] = Worker(
            heartbeat.worker_id, heartbeat.pool, heartbeat.work_partition,
            heartbeat_id, now, heartbeat.free, handlers,
        )  # fmt: skip
        for held in heartbeat.leases:
            lease = self.running.get(held.job_id)
            if lease and lease.epoch == held.epoch and lease.worker_id == heartbeat.worker_id:
                lease.ends_at = now + self._policy.term_seconds
        return [
            lease
            for lease in self.running.values()
            if self._boot_order(lease.worker_id, heartbeat.worker_id) < 0
        ]

    def listed(self, heartbeat: Heartbeat) -> list[Running]:
        """The living leases of its sender that a heartbeat lists."""
        known = ((self.running.get(held.job_id), held.epoch) for held in heartbeat.leases)
        return [
            lease
            for lease, epoch in known
            if lease and lease.epoch == epoch and lease.worker_id == heartbeat.worker_id
        ]

    def left(self, worker_id: str) -> list[Running]:
        """Forget a process that ended in order; returns the leases that it still had."""
        self._workers.pop(worker_id, None)
        return [lease for lease in self.running.values() if lease.worker_id == worker_id]

    def give_up(self, leases: Iterable[Running], why: str, reason: str) -> None:
        """Have leases taken back, in parts: a process may have held thousands."""
        for lease in leases:
            if not lease.given_up:
                lease.given_up = True
                self.given_up.append(GivenUp(lease, why, reason))

    def types(self, pool: str) -> set[str]:
        """The job types that a pool's workers handle.

        A worker counts until it was silent for a term, or for as long as a lease of it lives.
        """
        known = {type_ for w in self._workers.values() if w.pool == pool for type_ in w.handlers}
        return known | {lease.type for lease in self.running.values() if lease.pool == pool}

    def announced(self, worker_id: str, free: int) -> None:
        """A worker told its free slots outside of a heartbeat."""
        worker = self._workers.get(worker_id)
        if worker:
            worker.free = free

    def forget_type(self, worker_id: str, job_type: str) -> None:
        """A worker turned out not to have a handler that it announced."""
        worker = self._workers.get(worker_id)
        if worker:
            worker.handlers.pop(job_type, None)

    def granted(self, job: Job, worker: Worker) -> None:
        """One of the worker's slots is given to a job."""
        worker.free -= 1
        self._hold(job, worker.read_at + self._policy.term_seconds)
        self.cancelled(job)

    def resume(self, job: Job, known: Running | None, whole_term: float) -> None:
        """A lease found in the store: as it was known here, or with a whole term before it."""
        if known is None or known.worker_id != job.worker_id:
            self._hold(job, whole_term)
        else:
            self.running[job.job_id] = known

    def forget_leases(self) -> dict[tuple[str, int], Running]:
        """Every living lease, by job and epoch, of which none is known from now on."""
        known = {(lease.job_id, lease.epoch): lease for lease in self.running.values()}
        self.running.clear()
        return known

    def cancelled(self, job: Job) -> None:
        """Remember whether, and why, the job of a living lease is being cancelled."""
        lease = self.running.get(job.job_id)
        if lease is not None:
            lease.cancel = (job.cancel_reason or "cancelled") if job.cancel_requested else None
            lease.cancel_known = True

    def fresh_terms(self, now: float) -> None:
        """Give every lease a whole term: for a while nobody could be heard."""
        for lease in self.running.values():
            lease.ends_at = now + self._policy.term_seconds

    def overdue(self, now: float) -> list[Running]:
        return [lease for lease in self.running.values() if lease.ends_at <= now]

    def worker(self, worker_id: str | None) -> Worker | None:
        return self._workers.get(worker_id or "")

    def present(self, pool: str, now: float) -> list[Worker]:
        """Workers of a pool that were heard lately; those silent for a term are forgotten."""
        silent = now - self._policy.term_seconds
        for gone in [w.worker_id for w in self._workers.values() if w.read_at < silent]:
            del self._workers[gone]
        fresh = now - self._policy.heartbeat_seconds * _FRESH_HEARTBEATS
        return [w for w in self._workers.values() if w.pool == pool and w.read_at >= fresh]

    def with_slot(self, pool: str, now: float) -> list[Worker]:
        return [worker for worker in self.present(pool, now) if worker.free > 0]

    def _hold(self, job: Job, ends_at: float) -> None:
        self.running[job.job_id] = Running(
            job.job_id, job.epoch, job.worker_id or "", job.tenant_id, job.type, job.pool, ends_at
        )

    @staticmethod
    def _boot_order(one: str, other: str) -> int:
        """Below 0 where `one` is an earlier boot of the same instance, 0 if not comparable."""
        instance, _, boot = one.rpartition("/")
        other_instance, _, other_boot = other.rpartition("/")
        if instance != other_instance:
            return 0
        return (boot > other_boot) - (boot < other_boot)


def succeeds(worker_id: str, other: str) -> bool:
    """Whether `worker_id` is a later boot of the instance of `other`, which is gone then."""
    return Roster._boot_order(other, worker_id) < 0


def freest(workers: Iterable[Worker], job_type: str) -> Worker | None:
    """The worker with most free slots among those that handle a type."""
    able: Iterator[Worker] = (worker for worker in workers if job_type in worker.handlers)
    return max(able, key=lambda worker: worker.free, default=None)
