"""The link of a stage's process in memory, for tests that play the workers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from streams.runtime.link import Rights, Workers
from streams.runtime.processor import Record
from streams.serde.records import Handler


class MemoryLink:
    """A `Link` of which a test says which workers are connected, and what they send.

    It ends with its process. `received` are the outputs that were handed out, of all processes.
    """

    def __init__(self, workers: Workers, received: list[Record]) -> None:
        self._workers = workers
        self._received = received
        self._connected: set[str] = set()
        self.stirred = self._told = False
        self._inbox: list[Record] = []
        self._in_flight: list[Record] = []

    def connect(
        self,
        worker_id: str,
        pool: str,
        handlers: Sequence[Handler] = (),
        tenants: frozenset[str] | None = None,
        job_types: tuple[str, ...] | None = None,
    ) -> None:
        """Have a worker dial; see `Workers.connected`."""
        self._connected.add(worker_id)
        self._told = True
        rights = Rights(tenants, job_types=job_types)
        self._workers.connected(worker_id, pool, handlers, rights)

    def beat(
        self, worker_id: str, number: int, limit: int, now: float, *, draining: bool = False
    ) -> None:
        """Have a worker give a sign of life; see `Workers.heard`."""
        self._told = True
        self._workers.heard(worker_id, number, limit, draining, now)

    def disconnect(self, worker_id: str) -> None:
        """Cut a worker's connection."""
        self._connected.discard(worker_id)
        self._workers.gone(worker_id)

    def send(self, record: Record) -> None:
        """Have a worker send a command, as a record of the link."""
        self._inbox.append(record)

    @property
    def unacknowledged(self) -> list[Record]:
        """What was sent and is not committed, as far as its workers know."""
        return [*self._in_flight, *self._inbox]

    @property
    def dialed(self) -> frozenset[str]:
        """The workers that are connected."""
        return frozenset(self._connected)

    @property
    def connected(self) -> bool:
        return bool(self._connected)

    @property
    def waiting(self) -> bool:
        return bool(self._inbox) or self._told

    def wait(self, seconds: float) -> None:
        """Return at once: what a test has sent is there."""

    def take(self, _: int, /) -> list[Record]:
        self.stirred, self._told = self._told, False
        taken, self._inbox = self._inbox, []
        self._in_flight += taken
        return taken

    def caught_up_to(self, _: float) -> bool:
        return True

    def committed(self, records: Sequence[Record], outputs: Sequence[Record]) -> None:
        done = set(map(id, records))
        self._in_flight = [record for record in self._in_flight if id(record) not in done]
        self._received += outputs

    def again(self) -> None:
        self._inbox[:0] = self._in_flight
        self._in_flight = []

    def owned(self, partitions: Collection[int]) -> None:
        self._inbox = [record for record in self._inbox if record.partition in partitions]
        self._in_flight = [r for r in self._in_flight if r.partition in partitions]

    def close(self) -> None:
        for worker_id in sorted(self._connected):
            self.disconnect(worker_id)
