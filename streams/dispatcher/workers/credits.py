"""Orders connected workers by their credits, and picks one for a job.

A worker says how many leases it takes over its connection in all. Its credits are that limit minus
the number of leases that were sent to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sortedcontainers import SortedList

from streams.dispatcher.workers.turns import Turns
from streams.runtime.link import Rights
from streams.serde.records import Handler

_LOOKED_AT = 64
"""At most this many workers are examined to find some that may be asked for credits."""

Tenants = frozenset[str] | None
"""The tenants whose jobs a worker may run; None: those of all."""
Able = dict[str, Tenants]
"""Types of jobs that can be leased now, each for some tenants."""


@dataclass(slots=True, eq=False)
class Worker:
    """The connection of one worker process.

    - `limit` is the number of leases that it takes in all, and `sent` the number sent to it.
    - It is `drained` while people want it to be given no more leases.
    - `beat` is its newest sign of life, read at `read_at`; it is `silent` if that is long ago.
    - `asked_at` is when it was last asked for credits. All times are in monotonic seconds.
    """

    worker_id: str
    pool: str
    tenants: Tenants
    handlers: dict[str, Handler] = field(default_factory=dict)
    rights: Rights = field(default_factory=Rights)
    limit: int = 0
    sent: int = 0
    beat: int = 0
    draining: bool = False
    drained: bool = False
    silent: bool = False
    read_at: float = float("-inf")
    asked_at: float = float("-inf")
    place: tuple[int, str] | None = None

    @property
    def credits(self) -> int:
        """The number of leases that it gets beyond those sent to it."""
        takes_none = self.draining or self.drained or self.silent
        return 0 if takes_none else max(0, self.limit - self.sent)


class Crew:
    """Workers of one pool that handle the same types for the same tenants.

    Those with credits are ordered by them; `free` is the number of these credits.
    """

    def __init__(self, types: frozenset[str], tenants: Tenants) -> None:
        self.types = types
        self.tenants = tenants
        self.able: Able = dict.fromkeys(sorted(types), tenants)
        self.workers: dict[str, Worker] = {}
        self.free = 0
        self._order = SortedList()  # (negative credits, worker id)

    def freest(self, but: str | None = None) -> Worker | None:
        """The worker with the most credits, if any has some; never the worker `but`."""
        found = (worker_id for _, worker_id in self._order[:2] if worker_id != but)
        return next(map(self.workers.__getitem__, found), None)

    def place(self, worker: Worker) -> None:
        """Update a worker's place in the order by credits; O(log n)."""
        count = worker.credits
        place = (-count, worker.worker_id) if count else None
        if place == worker.place:
            return
        self._displace(worker)
        if place is not None:
            self._order.add(place)
            self.free += count
        worker.place = place

    def remove(self, worker: Worker) -> None:
        """Take a worker out."""
        self._displace(worker)
        del self.workers[worker.worker_id]

    def _displace(self, worker: Worker) -> None:
        if worker.place is not None:
            self._order.remove(worker.place)
            self.free += worker.place[0]
            worker.place = None


class Pool:
    """The workers of one pool, and the partitions that wait for their credits."""

    def __init__(self) -> None:
        self.turns: Turns[Crew] = Turns()
        self._crews: dict[tuple[frozenset[str], Tenants], Crew] = {}
        self._asked: dict[str, Worker] = {}  # least recently asked first

    def join(self, worker: Worker) -> None:
        """Add a worker."""
        key = frozenset(worker.handlers), worker.tenants
        crew = self._crews.setdefault(key, Crew(*key))
        crew.workers[worker.worker_id] = worker
        crew.place(worker)
        self._asked[worker.worker_id] = worker

    def leave(self, worker: Worker) -> None:
        """Remove a worker."""
        crew = self._crew(worker)
        crew.remove(worker)
        if not crew.workers:
            del self._crews[crew.types, crew.tenants]
        del self._asked[worker.worker_id]

    def place(self, worker: Worker) -> None:
        """Update a worker whose credits changed."""
        self._crew(worker).place(worker)

    def crews(self) -> list[Crew]:
        return list(self._crews.values())

    def types(self) -> set[str]:
        """The types that some worker handles."""
        return {type_ for types, _ in self._crews for type_ in types}

    def able(self, partition: int) -> Able:
        """What can be leased now for jobs of a partition."""
        crews = [crew for crew in self._crews.values() if self._has_turn(crew, partition)]
        if len(crews) == 1:
            return crews[0].able
        found: Able = {}
        for crew in crews:
            for type_ in crew.types:
                before = found.get(type_, frozenset())
                both = before is not None and crew.tenants is not None
                found[type_] = before | crew.tenants if both else None  # type: ignore[operator]
        return found

    def freest(
        self, partition: int, job_type: str, tenant_id: str, but: str | None = None
    ) -> Worker | None:
        """The worker with the most credits among those that may run such a job, if any has some.

        The worker with the id `but` is left out.
        """
        found = None
        for crew in self._crews.values():
            may_run = crew.tenants is None or tenant_id in crew.tenants
            if may_run and job_type in crew.types and self._has_turn(crew, partition):
                worker = crew.freest(but)
                if worker and (found is None or worker.credits > found.credits):
                    found = worker
        return found

    def to_ask(self, may_run: Callable[[Worker], bool], limit: int, before: float) -> list[Worker]:
        """Workers without credits that may run something, and were last asked before a moment.

        The least recently asked come first; every examined worker moves to the end.
        """
        found: list[Worker] = []
        for _ in range(min(_LOOKED_AT, len(self._asked))):
            worker = next(iter(self._asked.values()))
            if len(found) == limit or worker.asked_at > before:
                break
            self._asked[worker.worker_id] = self._asked.pop(worker.worker_id)
            takes_none = worker.draining or worker.drained or worker.silent
            if not (worker.place or takes_none) and may_run(worker):
                found.append(worker)
        return found

    def _crew(self, worker: Worker) -> Crew:
        return self._crews[frozenset(worker.handlers), worker.tenants]

    def _has_turn(self, crew: Crew, partition: int) -> bool:
        return bool(crew.free) and crew.free > self.turns.ahead(crew, partition)
