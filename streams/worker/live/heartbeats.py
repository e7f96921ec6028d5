"""`ctx.heartbeat`: keeps the newest details with the job, for the next attempt."""

from __future__ import annotations

import asyncio
import threading

import structlog

from streams.errors import PermanentError
from streams.redaction.redaction import Redaction
from streams.serde.records import Checkpoint, StepResult
from streams.serde.step_ids import HEARTBEAT, HEARTBEAT_ID
from streams.worker.handler.redacted import check_names, redacted
from streams.worker.handler.values import to_json
from streams.worker.lease.held_leases import Held
from streams.worker.link.run_commands import RunCommands

log = structlog.get_logger(__name__)

EVERY_SECONDS = 1.0
MAX_BYTES = 8 * 1024
"""A lease has room for it beside the steps."""


class Heartbeats:
    """The details of one run; the newest are sent, once a second and before its end is."""

    def __init__(
        self,
        held: Held,
        commands: RunCommands,
        loop: asyncio.AbstractEventLoop,
        redaction: Redaction,
    ) -> None:
        self._held = held
        self._commands = commands
        self._loop = loop
        self._redaction = redaction
        self._lock = threading.Lock()
        self._unsent: str | None = None
        self._sent_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def beat(self, details: object) -> None:
        """Take details, any JSON; never blocks, and may be called in threads.

        Raises:
            PermanentError: they are not JSON, or too large.
        """
        check_names(self._redaction, "the id of heartbeats", HEARTBEAT_ID)
        text = to_json(details, "the details of a heartbeat")
        if (size := len(text.encode())) > MAX_BYTES:
            raise PermanentError(
                f"the details of a heartbeat have {size:,} bytes, more than {MAX_BYTES:,}: "
                "keep where the work stands, and its results in steps"
            )
        with self._lock:
            self._unsent = text
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arm)

    def flush(self) -> None:
        """Send what is not sent yet; call this before the run's end is sent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self._lock:
            text, self._unsent = self._unsent, None
        if text is None:
            return
        self._sent_at = self._loop.time()
        left = StepResult(HEARTBEAT_ID, HEARTBEAT, value=text)
        newest = Checkpoint(self._held.lease.run_id, left)
        try:
            self._commands.post(redacted(newest, self._redaction), lambda: self._held.valid_until)
        except PermanentError as error:  # a credential that came since is in the id
            log.warning("the details of a heartbeat are not kept", reason=str(error))

    def _arm(self) -> None:
        if self._timer is None and self._unsent is not None:
            due = max(self._loop.time(), self._sent_at + EVERY_SECONDS)
            self._timer = self._loop.call_at(due, self.flush)
