"""How a worker reaches the rest of the pipeline: by Kafka, or in memory."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from streams.serde.records import PayloadRef

Done = Callable[[Exception | None], None]
"""Called once: None when every in-sync replica has the record, else why perhaps none has."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """One record read from the pipeline, not yet believed; `topic` is the logical name."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Inbox(Protocol):
    """What a transport tells the worker, from threads of its own, one call at a time each."""

    def assigned(self, partition: int | None) -> None:
        """Which work partition to announce; None while there is none.

        Replies sent to it from now on arrive.
        """

    def leased(self, record: Incoming) -> None:
        """A lease, or what passes for one; on return its offset may be committed."""

    def replied(self, record: Incoming) -> None:
        """A record of `jobs.replies`, perhaps for another worker."""

    def failed(self, error: Exception) -> None:
        """The transport cannot go on: the process must end."""


class Transport(Protocol):
    """Guarantee: records sent to one partition are stored in the order of the calls, as long
    as none fails."""

    def start(self, inbox: Inbox) -> None: ...

    def send(self, topic: str, key: bytes, value: bytes, *, partition: int, done: Done) -> None:
        """Send to a logical topic; never blocks, safe in threads."""

    def fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        """The sealed chunks of a raw body, in order.

        Raises (in the future):
            PermanentError: a chunk is gone from `payloads`.
            TransientError: the broker does not answer in time.
        """

    def close(self) -> None:
        """Send what is under way, for 5 seconds at most, and stop."""
