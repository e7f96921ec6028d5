"""The connection of a worker in memory: it can be cut, and it ends with its process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from streams.errors import PermanentError
from streams.runtime.processor import Record
from streams.serde.records import PayloadRef
from streams.worker.transport.contract import Done, Inbox, Incoming

WORK_PARTITION = 0
"""The partition of its work topic that the only worker of a pool has."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that the worker sent."""

    topic: str
    key: bytes
    value: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class Watch:
    """Called at what goes over a link; each call may kill the worker's process.

    `sent` is called before a record is sent and, with True, before its acknowledgement. `leased` is
    called before a lease is given to the worker.
    """

    sent: Callable[[Sent, bool], None]
    leased: Callable[[Record], None]


class Link:
    """`Transport` between one worker and the pipeline.

    While it is cut, records wait here unacknowledged, as they wait in a Kafka client.
    """

    def __init__(
        self, send: Callable[[Sent], None], payloads: Callable[[], list[Record]], watch: Watch
    ) -> None:
        self._send = send
        self._payloads = payloads
        self._watch = watch
        self._waiting: list[tuple[Sent, Done]] = []
        self._inbox: Inbox | None = None
        self._is_cut = False
        self._is_dead = False

    def start(self, inbox: Inbox) -> None:
        self._inbox = inbox
        inbox.assigned(WORK_PARTITION)

    def send(self, topic: str, key: bytes, value: bytes, *, partition: int, done: Done) -> None:
        self._waiting.append((Sent(topic, key, value, partition), done))
        self._flush()

    def fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        found: Future[list[bytes]] = Future()
        chunks = self._payloads()
        if any(offset >= len(chunks) for offset in ref.offsets):
            found.set_exception(PermanentError(f"payloads:{ref.partition}: the body is gone"))
        else:
            found.set_result([chunks[offset].value or b"" for offset in ref.offsets])
        return found

    def close(self) -> None:
        self._is_dead = True

    def cut(self) -> None:
        """Let nothing through, either way."""
        self._is_cut = True

    def mend(self) -> None:
        """Let everything through again, first what waited."""
        self._is_cut = False
        self._flush()

    @property
    def is_open(self) -> bool:
        """Whether the worker can be given records."""
        return not self._is_cut and not self._is_dead

    def lease(self, record: Record) -> None:
        """Give the worker a record of its work topic."""
        self._watch.leased(record)
        if self._inbox is not None and self.is_open:
            self._inbox.leased(_incoming(record))

    def reply(self, record: Record) -> None:
        """Give the worker a record of `jobs.replies`."""
        if self._inbox is not None:
            self._inbox.replied(_incoming(record))

    def _flush(self) -> None:
        while self._waiting and self.is_open:
            sent, done = self._waiting.pop(0)
            self._watch.sent(sent, False)
            if self.is_open:
                self._send(sent)
                self._watch.sent(sent, True)
            if self.is_open:
                done(None)


def _incoming(record: Record) -> Incoming:
    return Incoming(record.topic, record.partition, record.offset, record.key, record.value)
