"""Tracks the announced workers and their credits, and picks a worker for a job's type.

A worker reports how many leases of this partition it has read and how many more it takes; the sum
is its limit. Its credits are that limit minus the number of leases that were sent to it. A lease on
its way is counted as sent but not yet as read, so it is never counted twice.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from sortedcontainers import SortedList

from streams.dispatcher.workers.leases import ActiveLease
from streams.errors import PoisonRecord
from streams.serde.records import Declined, Ended, Handler, Heartbeat

_LOOKED_AT = 64
"""At most this many workers are examined to find some that may be asked for credits."""
_MOST = 1 << 40
"""More leases than any worker reads. The numbers of leases go on from what workers report, and must
not grow beyond 64 bits."""


@dataclass(slots=True, eq=False)
class Worker:
    """One worker process; `read_at` is when its last heartbeat was read (monotonic seconds).

    - `limit` is the number of leases of this partition that it takes in all, `received` the number
      it has read, and `sent` the number sent to it.
    - `asked_at` is when it was last asked for credits.
    - `doubted`: it is alive and left a lease unconfirmed for a whole term, so it gets one lease at
      a time until it speaks for one. `paused`: it gets none at present.
    """

    worker_id: str
    pool: str
    work_partition: int
    heartbeat_id: str
    read_at: float
    handlers: dict[str, Handler] = field(default_factory=dict)
    limit: int = 0
    received: int = 0
    sent: int = 0
    doubted: bool = False
    paused: bool = False
    fresh: bool = True
    asked_at: float = float("-inf")
    place: tuple[int, str] | None = None

    @property
    def credits(self) -> int:
        """The number of leases that it gets beyond those sent to it."""
        if self.paused:
            return 0
        free = max(0, self.limit - self.sent)
        return min(free, 1) if self.doubted else free

    def told(self, free: int, received: int) -> None:
        """Take in how many leases it has read and how many more it takes; ignore old reports."""
        if received < self.received:
            return
        self.received = received
        self.sent = max(self.sent, self.received)
        self.limit = free + received

    def lacks(self, lease: ActiveLease) -> bool:
        """Whether it has not read a lease that was sent to it, as far as is known.

        A lease on a partition that it no longer reads stays unread, even if it reads later ones.
        """
        return not lease.confirmed and lease.number > (0 if lease.unread else self.received)


def check(body: Heartbeat | Ended | Declined) -> None:
    """Reject numbers of leases that no worker can report.

    Raises:
        PoisonRecord: a number is negative or too large.
    """
    for name, number in (("free", body.free), ("received", body.received)):
        if not 0 <= number <= _MOST:
            raise PoisonRecord("bad_credits", f"{name} is {number}")


class Crew:
    """Workers of one pool that handle the same types; those with credits are ordered by them."""

    def __init__(self, types: frozenset[str]) -> None:
        self.types = types
        self.workers: dict[str, Worker] = {}
        self._order = SortedList()  # (negative credits, worker id)

    def freest(self, but: str | None = None) -> Worker | None:
        """The worker with the most credits, if any has some; never the worker `but`."""
        found = (worker_id for _, worker_id in self._order[:2] if worker_id != but)
        return next(map(self.workers.__getitem__, found), None)

    def credits(self) -> int:
        """How many leases its workers take now, in all."""
        return sum(worker.credits for worker in self.workers.values() if worker.place)

    def place(self, worker: Worker) -> None:
        """Update a worker's place in the order by credits; O(log n)."""
        count = worker.credits if worker.fresh else 0
        place = (-count, worker.worker_id) if count else None
        if place == worker.place:
            return
        if worker.place is not None:
            self._order.remove(worker.place)
        if place is not None:
            self._order.add(place)
        worker.place = place

    def remove(self, worker: Worker) -> None:
        """Take a worker out."""
        if worker.place is not None:
            self._order.remove(worker.place)
            worker.place = None
        del self.workers[worker.worker_id]


class Pool:
    """The workers of one pool."""

    def __init__(self) -> None:
        self._crews: dict[frozenset[str], Crew] = {}
        self._asked: OrderedDict[str, Worker] = OrderedDict()  # least recently asked first

    def __len__(self) -> int:
        return len(self._asked)

    def join(self, worker: Worker) -> None:
        """Add a worker; call `leave` first if its types changed."""
        types = frozenset(worker.handlers)
        crew = self._crews.setdefault(types, Crew(types))
        crew.workers[worker.worker_id] = worker
        crew.place(worker)
        self._asked[worker.worker_id] = worker

    def leave(self, worker: Worker) -> None:
        """Remove a worker."""
        types = frozenset(worker.handlers)
        crew = self._crews[types]
        crew.remove(worker)
        if not crew.workers:
            del self._crews[types]
        del self._asked[worker.worker_id]

    def place(self, worker: Worker) -> None:
        """Update a worker whose credits changed, that fell silent, or that was heard again."""
        self._crews[frozenset(worker.handlers)].place(worker)

    def types(self) -> set[str]:
        """The types that some worker handles."""
        return set().union(*self._crews)

    def able(self) -> set[str]:
        """The types that some worker with credits handles."""
        return set().union(*(crew.types for crew in self._crews.values() if crew.freest()))

    def freest(self, job_type: str, but: str | None = None) -> Worker | None:
        """The worker with the most credits among those that handle a type, if any has some.

        The worker with the id `but` is left out.
        """
        crews = (crew for crew in self._crews.values() if job_type in crew.types)
        able = (worker for crew in crews if (worker := crew.freest(but)) is not None)
        return max(able, key=lambda worker: worker.credits, default=None)

    def credits(self) -> int:
        """How many leases its workers take now, in all."""
        return sum(crew.credits() for crew in self._crews.values())

    def to_ask(self, types: set[str], limit: int, before: float) -> list[Worker]:
        """Workers without credits that handle these types and were last asked before a moment.

        The least recently asked come first; every examined worker moves to the end.
        """
        found: list[Worker] = []
        for _ in range(min(_LOOKED_AT, len(self._asked))):
            worker = next(iter(self._asked.values()))
            if len(found) == limit or worker.asked_at > before:
                break
            self._asked.move_to_end(worker.worker_id)
            if not (types.isdisjoint(worker.handlers) or worker.place or worker.paused):
                found.append(worker)
        return found
