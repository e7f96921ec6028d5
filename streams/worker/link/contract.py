"""What lies on either side of the worker's link: connections below it, the worker above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from streams.serde.records import Reply
from streams.worker.lease.held_leases import Held

if TYPE_CHECKING:
    from streams.worker.link.link import Link

Deadline = Callable[[], float]
"""Returns a moment on the worker's clock. It is asked again and again, since beats move it."""

NEVER = float("-inf")
"""The deadline of a command that nobody wants any more: it is given up without a word."""

Acknowledged = Callable[[Exception | None], None]
"""Called once: None when the owner has committed a command, else why perhaps it has not: LeaseLost,
or PermanentError if no owner can apply it."""


class Connection(Protocol):
    """An open connection to an owner. What the link is told about it comes from one thread.

    The order of the calls of `send` is the order in which the messages arrive, until it is closed.
    """

    @property
    def name(self) -> str:
        """What to call its other end in log lines."""

    def send(self, message: bytes) -> None:
        """Send an encoded message; those of one turn share a frame. It never blocks.

        Threads may call it, also after it was closed.
        """

    def close(self, why: str) -> None:
        """Close it soon; the link is told with `closed`."""


class Connects(Protocol):
    """Makes connections for the link of a worker, and has it tick."""

    def start(self, link: Link, failed: Callable[[Exception], None]) -> None:
        """Begin to connect; `failed` gets what ends this for good, in any thread."""

    def close(self) -> None:
        """End every connection."""


class Inbox(Protocol):
    """What the link tells the worker, in the threads of connections, one call at a time."""

    def leased(self, held: Held) -> None:
        """A lease was taken: its run begins."""

    def replied(self, reply: Reply) -> None:
        """An answer to a command, or the end of a run's lease."""

    def failed(self, error: Exception) -> None:
        """The worker cannot go on: its process must end."""
