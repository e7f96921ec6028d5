"""Knows the workers that announced themselves to one partition, by their ids and by pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streams.dispatcher.workers.credits import Pool, Worker
from streams.serde.records import Heartbeat


class Roster:
    """The announced workers; each is in its pool, in the place that its credits give it."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._pools: dict[str, Pool] = {}

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def get(self, worker_id: str | None) -> Worker | None:
        return self._workers.get(worker_id or "")

    def introduced(self, heartbeat: Heartbeat, now: float) -> Worker:
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

    def place(self, worker: Worker) -> None:
        """Give a worker the place in its pool that follows from its credits."""
        self._pools[worker.pool].place(worker)

    def remove(self, worker_id: str) -> None:
        """Forget a worker, and its pool with the last one."""
        worker = self._workers.pop(worker_id, None)
        if worker is not None:
            self._pools[worker.pool].leave(worker)
            if not self._pools[worker.pool]:
                del self._pools[worker.pool]

    def announced(self, worker_id: str, free: int, received: int) -> None:
        """Take in the credits that a worker reports outside of a heartbeat."""
        worker = self._workers.get(worker_id)
        if worker:
            worker.told(free, received)
            self.place(worker)

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

    def types(self, pool: str) -> set[str]:
        """The job types that a pool's workers handle."""
        return self._pools[pool].types() if pool in self._pools else set()

    def able(self, pool: str) -> set[str]:
        """The job types that workers with credits handle."""
        return self._pools[pool].able() if pool in self._pools else set()

    def credits(self, pool: str) -> int:
        """How many leases a pool's workers take now, in all."""
        return self._pools[pool].credits() if pool in self._pools else 0

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
