"""Sends records until they are acknowledged or their deadline has passed."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import structlog

from streams.errors import LeaseLost, RecordTooLarge
from streams.process.wall_clock import wall_ms
from streams.serde.codec import COMMAND
from streams.serde.ids import new_id
from streams.serde.records import Command, CommandBody, Lease
from streams.worker import metrics
from streams.worker.transport.contract import Done, Transport

log = structlog.get_logger(__name__)

_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 30.0
"""Of a record without a deadline: its topic or the right to write to it may be missing."""

Deadline = Callable[[], float]
"""Returns a moment on the worker's clock. Asked before each attempt, since heartbeats move it."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One record to be sent; `what` names it in log lines.

    `shorter` is the value to send instead if the broker refuses the value for its size. A record
    that is refused with it, too, is given up.
    """

    topic: str
    key: bytes
    value: bytes = field(repr=False)
    partition: int
    what: str
    shorter: bytes | None = field(default=None, repr=False)


class RetryingSender:
    """Thread-safe. A repeated record has the same bytes, and therefore the same ids."""

    def __init__(self, transport: Transport, clock: Callable[[], float]) -> None:
        self._transport = transport
        self._clock = clock

    def post(self, letter: Letter, until: Deadline, done: Done | None = None) -> None:
        """Send, and repeat on failure; `done` gets LeaseLost if the deadline passes first.

        It gets RecordTooLarge for a letter that is given up.
        """

        pause = _PAUSE_SECONDS / 2

        def attempt() -> None:
            nonlocal pause
            deadline = until()
            endless = math.isinf(deadline)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS) if endless else _PAUSE_SECONDS
            if self._clock() >= deadline:
                log.warning("not sent: too late", record=letter.what, partition=letter.partition)
                if done:
                    done(LeaseLost(f"{letter.what} could not be sent in time: nothing more is"))
                return
            self._transport.send(
                letter.topic, letter.key, letter.value, partition=letter.partition, done=finished
            )

        def finished(error: Exception | None) -> None:
            if error is None:
                if done:
                    done(None)
                return
            if isinstance(error, RecordTooLarge) and letter.shorter is not None:
                self._shorten(letter, until, done, error)
                return
            log.warning("not acknowledged: sent again", record=letter.what, error=str(error))
            metrics.RESENT.inc()
            timer = threading.Timer(pause, attempt)
            timer.daemon = True
            timer.start()

        attempt()

    def _shorten(
        self, letter: Letter, until: Deadline, done: Done | None, error: RecordTooLarge
    ) -> None:
        if letter.value != letter.shorter:
            self.post(replace(letter, value=letter.shorter or b""), until, done)
            return
        log.error(
            f"the broker refuses a record for its size, and it is given up: mend the topic "
            f"{letter.topic}, as `tidegate topology plan` says",
            record=letter.what,
        )
        if done:
            done(error)

    def send(self, letter: Letter, until: Deadline) -> asyncio.Future[None]:
        """Call `post` at once; the future is done when the record is acknowledged.

        Raises (in the future):
            LeaseLost: the deadline passed first; an earlier attempt may still have been written.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def resolve(error: Exception | None) -> None:
            if future.done():
                return
            if error:
                future.set_exception(error)
            else:
                future.set_result(None)

        def done(error: Exception | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(resolve, error)

        self.post(letter, until, done)
        return future


def command(lease: Lease, body: CommandBody) -> Letter:
    """A command on behalf of a lease, for the partition that owns its job."""
    value = Command(new_id("cmd"), lease.tenant_id, lease.job_id, lease.epoch, wall_ms(), body)
    what = f"{type(body).__name__} of {lease.job_id}"
    key = lease.tenant_id.encode()
    return Letter("jobs.commands", key, COMMAND.encode(value), lease.home_partition, what)
