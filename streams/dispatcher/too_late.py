"""Commands that come too late: the job that they mean has ended."""

from __future__ import annotations

from streams.dispatcher import metrics
from streams.errors import PoisonRecord
from streams.serde.records import Command


def too_late(command: Command) -> None:
    """Pass by a command that can do nothing any more, or refuse it if somebody waits for it.

    Raises:
        PoisonRecord: the command is one of a call.
    """
    if command.call is not None:
        raise PoisonRecord("job_ended", f"job {command.job_id} had ended before this was read")
    metrics.STALE.labels(type(command.body).__name__).inc()
