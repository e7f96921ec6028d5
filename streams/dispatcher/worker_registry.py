"""Tracks the workers that one partition's dispatcher knows: announced credits, living leases.

All times are this process's monotonic ones, in seconds. A lease ends a term after the *reading* of
the last heartbeat that listed it (or, until one does, of the heartbeat that the lease answers). The
worker counts from the *sending* of the same heartbeats, so it always stops first.

A worker with credits or leases of this partition is heard here at each heartbeat, any other worker
once a minute. No call walks over all workers or all leases.
"""

from __future__ import annotations

from collections.abc import Iterable

from streams.dispatcher.active_leases import ActiveLease, Leases, split_worker
from streams.dispatcher.doubts import Doubts
from streams.dispatcher.incumbents import Incumbents
from streams.dispatcher.liveness import Silence
from streams.dispatcher.worker_credits import Pool, Worker
from streams.serde.records import Heartbeat, Job
from streams.topology.model import LeasePolicy


class WorkerRegistry:
    """The workers that can take jobs and the leases they hold, from heartbeats and job records."""

    def __init__(self, policy: LeasePolicy) -> None:
        self._term = policy.term_seconds
        self._silence = Silence(policy)
        self._workers: dict[str, Worker] = {}
        self._pools: dict[str, Pool] = {}
        self._boots = Incumbents(self._silence.fresh_seconds)
        self._doubts = Doubts(policy.term_seconds)
        self.leases = Leases()

    @property
    def running(self) -> dict[str, ActiveLease]:
        """The living leases by job; change them through `granted`, `resume` and `over`."""
        return self.leases.running

    def heard(self, heartbeat: Heartbeat, heartbeat_id: str, now: float) -> list[ActiveLease]:
        """Take in a heartbeat; returns the leases of other processes of the same instance.

        This process has taken their place (see `Incumbents`), so their leases are over.
        """
        worker_id = heartbeat.worker_id
        before = self._boots.newest(worker_id)
        if not self._boots.heard(worker_id, now):
            return []
        if before != worker_id:
            self._forget(before)
        worker = self._introduced(heartbeat, now)
        worker.heartbeat_id, worker.read_at = heartbeat_id, now
        if worker.work_partition != heartbeat.work_partition:
            worker.work_partition = heartbeat.work_partition
            self._trust(worker)
        worker.told(heartbeat.free, heartbeat.received)
        worker.fresh = True
        self._pools[worker.pool].place(worker)
        often = bool(heartbeat.free or heartbeat.leases)
        self._silence.heard(worker_id, now, often=often)
        self.renew(heartbeat, now)
        boots = self.leases.boots(split_worker(worker_id)[0])
        others = [other for other in boots if other != worker_id]
        return [lease for other in others for lease in self.leases.of(other)]

    def renew(self, heartbeat: Heartbeat, now: float) -> None:
        """Give the leases that a heartbeat lists a whole term."""
        for lease in self.listed(heartbeat):
            lease.ends_at = now + self._term
            self._trust(self._workers.get(lease.worker_id))

    def listed(self, heartbeat: Heartbeat) -> list[ActiveLease]:
        """The living leases of the heartbeat's sender that the heartbeat lists."""
        known = ((self.running.get(held.job_id), held.epoch) for held in heartbeat.leases)
        return [
            lease
            for lease, epoch in known
            if lease and lease.epoch == epoch and lease.worker_id == heartbeat.worker_id
        ]

    def left(self, worker_id: str) -> list[ActiveLease]:
        """Forget a process that ended properly; returns the leases that it still had."""
        self._forget(worker_id)
        return self.leases.of(worker_id)

    def announced(self, worker_id: str, free: int, received: int) -> None:
        """Take in the credits that a worker reports outside of a heartbeat."""
        worker = self._workers.get(worker_id)
        if worker:
            worker.told(free, received)
            self._pools[worker.pool].place(worker)

    def withdraw(self, worker_id: str) -> None:
        """Treat a worker as one without credits until it announces some."""
        worker = self._workers.get(worker_id)
        if worker:
            self.announced(worker_id, 0, worker.received)

    def forget_type(self, worker_id: str, job_type: str) -> None:
        """Note that a worker does not have a handler that it announced."""
        worker = self._workers.get(worker_id)
        if worker and job_type in worker.handlers:
            self._pools[worker.pool].leave(worker)
            del worker.handlers[job_type]
            self._pools[worker.pool].join(worker)

    def granted(self, job: Job, worker: Worker) -> None:
        """Give one of the worker's credits to a job."""
        worker.sent += 1
        self._doubts.granted(worker)
        self._pools[worker.pool].place(worker)
        lease = ActiveLease(
            job.job_id,
            job.epoch,
            worker.worker_id,
            job.tenant_id,
            job.type,
            job.pool,
            worker.read_at + self._term,
            number=worker.sent,
            work_partition=worker.work_partition,
        )
        self.leases.add(lease)
        self.cancelled(job)

    def resume(self, lease: ActiveLease, now: float) -> None:
        """Add a lease that was found in the store; its worker counts as heard now."""
        self._boots.found(lease.worker_id, now)
        self.leases.add(lease)
        worker = self._workers.get(lease.worker_id)
        if worker is not None and worker.lacks(lease):
            worker.sent += 1
            self._pools[worker.pool].place(worker)

    def over(self, job_id: str) -> ActiveLease | None:
        """Remove the lease of a job; one that its worker never read gives the credit back."""
        lease = self.leases.remove(job_id)
        if lease is None:
            return None
        worker = self._workers.get(lease.worker_id)
        if not lease.unread:
            self._trust(worker)
        if worker is None:
            self._forget_boot(lease.worker_id)
        elif worker.lacks(lease):
            worker.sent -= 1
            self._pools[worker.pool].place(worker)
        return lease

    def doubt(self, lease: ActiveLease, now: float) -> bool:
        """Note that a lease was not confirmed for a whole term; whether its worker is the cause.

        The first such lease of a worker may have another cause, so it counts against its job; what
        comes after it does not.
        """
        worker = self._workers.get(lease.worker_id)
        if worker is None or not worker.fresh or lease.work_partition != worker.work_partition:
            return False
        return self._doubts.doubt(worker, now)

    def cancelled(self, job: Job) -> None:
        """Remember whether and why the job of a living lease is being cancelled."""
        lease = self.running.get(job.job_id)
        if lease is not None:
            lease.cancel = (job.cancel_reason or "cancelled") if job.cancel_requested else None
            lease.cancel_known = True

    def succeeds(self, worker_id: str, other: str) -> bool:
        """Whether the process `worker_id` took the place of the process `other`."""
        return self._boots.succeeds(worker_id, other)

    def fresh_terms(self, now: float) -> None:
        """Give every lease a whole term, because for a while no worker could be heard."""
        self.leases.fresh_terms(now + self._term)

    def overdue(self, now: float, limit: int) -> list[ActiveLease]:
        """At most `limit` leases whose term is over."""
        return self.leases.overdue(now, limit)

    def worker(self, worker_id: str | None) -> Worker | None:
        return self._workers.get(worker_id or "")

    def pass_time(self, now: float) -> None:
        """Stop leasing to silent workers, and forget those that have been silent for longer."""
        for doubted in self._doubts.due(now):
            self._pools[doubted.pool].place(doubted)
        for worker in map(self.worker, self._silence.silent(now)):
            if worker is not None:
                worker.fresh = False
                self._pools[worker.pool].place(worker)
        for worker_id in self._silence.gone(now):
            self._forget(worker_id)

    def types(self, pool: str) -> set[str]:
        """The job types that a pool's workers handle.

        A worker counts until it is forgotten, and for as long as one of its leases lives.
        """
        known = self._pools[pool].types() if pool in self._pools else set()
        return known | self.leases.types(pool)

    def able(self, pool: str) -> set[str]:
        """The job types that workers with credits handle."""
        return self._pools[pool].able() if pool in self._pools else set()

    def freest(self, pool: str, job_type: str, but: str | None = None) -> Worker | None:
        """The worker of a pool with the most credits among those that handle a type."""
        return self._pools[pool].freest(job_type, but) if pool in self._pools else None

    def to_ask(self, pool: str, types: set[str], limit: int, now: float) -> Iterable[Worker]:
        """Workers that may have credits for these types on other partitions.

        Each is returned at most once a second.
        """
        if pool not in self._pools:
            return ()
        workers = self._pools[pool].to_ask(types, limit, now - 1)
        for worker in workers:
            worker.asked_at = now
        return workers

    def _introduced(self, heartbeat: Heartbeat, now: float) -> Worker:
        """The worker of a heartbeat, in its pool and with its handlers."""
        worker = self._workers.get(heartbeat.worker_id)
        handlers = {handler.type: handler for handler in heartbeat.handlers}
        if worker is not None and (worker.pool, worker.handlers) == (heartbeat.pool, handlers):
            return worker
        known = worker or Worker(
            heartbeat.worker_id,
            heartbeat.pool,
            heartbeat.work_partition,
            "",
            now,
            sent=heartbeat.received,
        )
        if worker is not None:
            self._pools[worker.pool].leave(worker)
        known.pool, known.handlers = heartbeat.pool, handlers
        self._workers[known.worker_id] = known
        self._pools.setdefault(known.pool, Pool()).join(known)
        return known

    def _trust(self, worker: Worker | None) -> None:
        if worker is not None and worker.doubted:
            self._doubts.trust(worker)
            self._pools[worker.pool].place(worker)

    def _forget(self, worker_id: str) -> None:
        worker = self._workers.pop(worker_id, None)
        self._doubts.forget(worker_id)
        self._silence.forget(worker_id)
        if worker is not None:
            self._pools[worker.pool].leave(worker)
            if not self._pools[worker.pool]:
                del self._pools[worker.pool]
        self._forget_boot(worker_id)

    def _forget_boot(self, worker_id: str) -> None:
        if worker_id not in self._silence and not self.leases.of(worker_id):
            self._boots.forget(worker_id)
