"""One attempt to deliver a message: what the sender is asked to do, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from streams.serde.delivery_records import Delivery, Outgoing
from streams.serde.records import TenantRecord

Blame = Literal["receiver", "message", "us", "nobody"]
"""The cause of a failure. A failure of the receiver counts for the retries and, unless its status
speaks of the message alone, for the circuit. A failure of the message is final, since no
attempt could succeed. After a failure of our own the attempt is made again and not counted. Nobody
is to blame if nothing was sent, because the attempt was not wanted any more."""


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to make; `endpoint` is the endpoint's record, with its sealed keys and headers.

    A `probe` finds out whether an endpoint whose circuit is open takes messages again. The sender
    asks `wanted` from its own thread just before it sends: the attempt may have waited for minutes.
    """

    row: Delivery
    message: Outgoing
    endpoint: TenantRecord
    url: str
    timeout_seconds: float
    probe: bool = False
    wanted: Callable[[], bool] = _always


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that ended; `at` is when it began, in milliseconds, `url` where it went.

    `error` is the class of the failure, None if the receiver took the message; `excerpt` is the
    beginning of its answer without secrets. `retry_after_seconds` is what the receiver asked for.
    """

    row: Delivery
    at: int
    duration_ms: int
    address: str | None = None
    status: int | None = None
    url: str = ""
    error: str | None = None
    detail: str = ""
    excerpt: str = ""
    retry_after_seconds: float | None = None
    blame: Blame = "receiver"
    probe: bool = False


class Sender(Protocol):
    """Makes attempts, each once, in no particular order.

    The stage calls it from one thread. It makes no promise about attempts that are under way when
    the process ends: their rows are still pending, and the next owner of the partition repeats
    them.
    """

    def send(self, partition: int, attempts: Sequence[Attempt]) -> None:
        """Begin these attempts; returns at once."""

    def ended(self, partition: int) -> list[Ended]:
        """The attempts that ended since the last call."""

    def forget(self, partition: int) -> None:
        """Stop the attempts of a partition that belongs to another process now."""
