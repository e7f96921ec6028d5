"""The workers that are connected to this process, by their ids and by pool.

There is one roster for all partitions of a process, since they share the credits of its workers. It
is used in the stage's thread alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from streams.dispatcher.workers.credits import Able, Crew, Pool, Worker
from streams.runtime.link import Rights
from streams.serde.ids import split_worker
from streams.serde.records import Handler
from streams.topology.model import LeasePolicy

_NOTHING = Rights(frozenset(), (), ())
_SILENT_HEARTBEATS = 2.5
_REMEMBERED = 1_000
"""Of so many workers whose connection has ended, what they may run stays known."""


class Roster:
    """The connected workers; each is in its pool, in the place that its credits give it."""

    def __init__(self, policy: LeasePolicy) -> None:
        self._term = policy.term_seconds
        self._silent = policy.heartbeat_seconds * _SILENT_HEARTBEATS
        self._workers: dict[str, Worker] = {}
        self._heard: OrderedDict[str, Worker] = OrderedDict()  # longest silent first
        self._pools: dict[str, Pool] = {}
        self._left: dict[tuple[str, frozenset[str]], float] = {}  # until when their types count
        self._rights: dict[str, Rights] = {}  # of those that are gone
        self._drained: dict[str, set[int]] = {}  # by name, the partitions that say so

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def connected(
        self, worker_id: str, pool: str, handlers: Sequence[Handler], rights: Rights
    ) -> None:
        """A worker is connected: it has no credits before its first beat."""
        self.gone(worker_id)
        self._rights.pop(worker_id, None)
        by_type = {handler.type: handler for handler in handlers}
        worker = self._workers[worker_id] = Worker(worker_id, pool, rights.tenants, by_type, rights)
        worker.drained = split_worker(worker_id)[0] in self._drained
        self._pool(pool).join(worker)

    def heard(self, worker_id: str, beat: int, limit: int, draining: bool, now: float) -> None:
        """A beat of a worker was read at `now`, with the leases that it takes in all."""
        worker = self._workers.get(worker_id)
        if worker is not None:
            worker.beat, worker.read_at = beat, now
            worker.limit, worker.draining, worker.silent = limit, draining, False
            self._heard[worker_id] = worker
            self._heard.move_to_end(worker_id)
            self._pools[worker.pool].place(worker)

    def gone(self, worker_id: str) -> None:
        """A worker's connection has ended.

        Its types count for a while, so that a broken connection is no change of what is handled.
        """
        worker = self._workers.pop(worker_id, None)
        if worker is None:
            return
        self._heard.pop(worker_id, None)
        self._pools[worker.pool].leave(worker)
        self._rights[worker_id] = worker.rights
        if len(self._rights) > _REMEMBERED:
            del self._rights[next(iter(self._rights))]
        if not worker.draining:
            place = worker.pool, frozenset(worker.handlers)
            self._left[place] = max(worker.read_at + self._term, self._left.pop(place, 0.0))
            if len(self._left) > _REMEMBERED:
                del self._left[next(iter(self._left))]

    def pass_time(self, now: float) -> None:
        """Send no leases to those that fell silent: their terms would soon be over.

        The link ends such connections, too.
        """
        while self._heard:
            worker = next(iter(self._heard.values()))
            if now - worker.read_at < self._silent:
                return
            del self._heard[worker.worker_id]
            worker.silent = True
            self._pools[worker.pool].place(worker)

    def get(self, worker_id: str | None) -> Worker | None:
        return self._workers.get(worker_id or "")

    def rights_of(self, worker_id: str) -> Rights:
        """What a worker's token allows; nothing if it was not connected lately."""
        worker = self._workers.get(worker_id)
        return self._rights.get(worker_id, _NOTHING) if worker is None else worker.rights

    def sent(self, worker: Worker, partition: int) -> None:
        """A lease of a partition is sent to a worker: it uses one of the worker's credits."""
        worker.sent += 1
        pool = self._pools[worker.pool]
        pool.place(worker)
        pool.turns.served(partition)

    def unsent(self, worker: Worker) -> None:
        """A lease was not sent after all; the worker may be gone."""
        worker.sent -= 1
        self._place(worker)

    def full(self, worker_id: str) -> None:
        """Treat a worker as one without credits until it is heard again."""
        worker = self._workers.get(worker_id)
        if worker is not None:
            worker.limit = min(worker.limit, worker.sent)
            self._place(worker)

    def types(self, pool: str, now: float) -> set[str]:
        """The job types that a pool's workers handle, or handled a term ago."""
        found = self._pool(pool).types()
        if self._left:
            self._left = {place: until for place, until in self._left.items() if until >= now}
            found.update(*(types for of, types in self._left if of == pool))
        return found

    def able(self, pool: str, partition: int) -> Able:
        """What workers with credits can run now of a partition's jobs in a pool."""
        return self._pool(pool).able(partition)

    def freest(
        self, pool: str, partition: int, job_type: str, tenant_id: str, but: str | None = None
    ) -> Worker | None:
        """The worker with the most credits among those of a pool that may run such a job."""
        return self._pool(pool).freest(partition, job_type, tenant_id, but)

    def crews(self, pool: str) -> list[Crew]:
        """The workers of a pool, by what they may run."""
        return self._pool(pool).crews()

    def wait(self, partition: int, pool: str, crews: Collection[Crew]) -> None:
        """Let a partition wait for its turn to use credits of these crews; of none: for nothing."""
        self._pool(pool).turns.wait(partition, crews)

    def leave(self, partition: int) -> None:
        """Let a partition wait for nothing, and drain no worker."""
        for pool in self._pools.values():
            pool.turns.wait(partition, ())
        for name in list(self._drained):
            self.drain(partition, name, False)

    def drain(self, partition: int, name: str, is_drained: bool) -> None:
        """Give a worker of this name no leases while any partition says so, whatever its boot."""
        said = self._drained.setdefault(name, set())
        said.add(partition) if is_drained else said.discard(partition)
        if not said:
            del self._drained[name]
        for worker in self._workers.values():
            if split_worker(worker.worker_id)[0] == name:
                worker.drained = bool(said)
                self._place(worker)

    def has_turn(self, partition: int) -> bool:
        """Whether there is a credit by now for which a partition waits."""
        return any(
            crew.free > pool.turns.ahead(crew, partition)
            for pool in self._pools.values()
            for crew in pool.turns.crews(partition)
            if crew.free
        )

    def to_ask(
        self, pool: str, may_run: Callable[[Worker], bool], limit: int, now: float
    ) -> Iterable[Worker]:
        """Workers of a pool without credits here that may run something.

        Each is returned at most once a second.
        """
        workers = self._pool(pool).to_ask(may_run, limit, now - 1)
        for worker in workers:
            worker.asked_at = now
        return workers

    def _place(self, worker: Worker) -> None:
        if self._workers.get(worker.worker_id) is worker:
            self._pools[worker.pool].place(worker)

    def _pool(self, name: str) -> Pool:
        return self._pools.setdefault(name, Pool())
