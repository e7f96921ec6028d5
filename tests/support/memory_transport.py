"""A worker's transport whose records a test sees and writes itself."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from streams.errors import KafkaUnavailable, PermanentError
from streams.serde.records import PayloadRef
from streams.testing.link import Sent
from streams.worker.transport.contract import Done, Inbox, Incoming


class MemoryTransport:
    """Keeps sent records, and gives the inbox the arguments of `assign`, `lease` and `reply`.

    `on_send` gets each record after it was acknowledged. The next `failures` sends are refused.
    `payloads` maps (partition, offset) to a sealed chunk.
    """

    def __init__(self, on_send: Callable[[Sent], None] | None = None) -> None:
        self.sent: list[Sent] = []
        self.payloads: dict[tuple[int, int], bytes] = {}
        self.failures = 0
        self.on_send = on_send
        self._inbox: Inbox | None = None
        self._offset = 0

    def start(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def send(self, topic: str, key: bytes, value: bytes, *, partition: int, done: Done) -> None:
        if self.failures:
            self.failures -= 1
            done(KafkaUnavailable(f"{topic}: refused as the test asked"))
            return
        record = Sent(topic, key, value, partition)
        self.sent.append(record)
        done(None)
        if self.on_send:
            self.on_send(record)

    def fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        future: Future[list[bytes]] = Future()
        missing = [o for o in ref.offsets if (ref.partition, o) not in self.payloads]
        if missing:
            future.set_exception(PermanentError(f"payloads:{ref.partition}:{missing[0]} is gone"))
        else:
            future.set_result([self.payloads[ref.partition, offset] for offset in ref.offsets])
        return future

    def close(self) -> None:
        self._inbox = None

    def assign(self, partition: int | None) -> None:
        """Give the worker a work partition, or take it away."""
        self._open().assigned(partition)

    def lease(self, value: bytes | None, partition: int = 0, key: bytes | None = None) -> None:
        """Put a record on the worker's work partition."""
        self._offset += 1
        self._open().leased(Incoming("jobs.work.default", partition, self._offset, key, value))

    def reply(self, value: bytes | None) -> None:
        """Put a record on `jobs.replies`."""
        self._offset += 1
        self._open().replied(Incoming("jobs.replies", 0, self._offset, None, value))

    def _open(self) -> Inbox:
        if self._inbox is None:
            raise RuntimeError("the worker is not started")
        return self._inbox
