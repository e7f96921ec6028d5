"""What an error of the application's code makes of its run."""

from __future__ import annotations

import re
from asyncio import CancelledError
from contextlib import suppress

import structlog

from streams.errors import LeaseLost, PermanentError
from streams.worker.handler.context import Context
from streams.worker.handler.run_result import (
    RunResult,
    RunStopped,
    raised,
    traceback_of,
    unforeseen,
)
from streams.worker.handler.run_session import RunSession

log = structlog.get_logger(__name__)

ALL_FRAMES = "handler raised: all frames"
"""The text of the debug line that has the worker's frames, too."""

_OWNERS = "|".join(each.__name__ for each in Context.__mro__[:-1])
_CALL_OF_CTX = re.compile(rf"(?:{_OWNERS})\.(\w+\(\) .+)")
"""What Python says of a call that does not fit a method."""


def result_of(error: BaseException, session: RunSession) -> RunResult:
    """The result of a run whose code raised; an error that nobody foresaw is logged.

    SystemExit counts, too: a handler ends its run, never the worker.

    Raises:
        BaseException: the error itself, if it says that the run is over.
    """
    if says_it_is_over(error, session):
        raise error
    error = _told_of_ctx(error)
    clean = session.redaction.text
    if unforeseen(error):
        lease, where = session.lease, traceback_of(error, clean)
        log.warning("handler raised", type=lease.type, attempt=lease.attempt, exception=where)
        with suppress(Exception):  # an odd error may have frames that cannot be written
            log.debug(ALL_FRAMES, exc_info=error)
    return raised(error, clean)


def says_it_is_over(error: BaseException, session: RunSession) -> bool:
    """Whether an error unwinds a run that was stopped, cancelled or, with its loop, closed."""
    if isinstance(error, LeaseLost):
        return session.verdict is not None
    return isinstance(error, CancelledError | RunStopped | GeneratorExit)


def _told_of_ctx(error: BaseException) -> BaseException:
    """The error; a permanent one for a call of `ctx` with other arguments than it takes."""
    found = _CALL_OF_CTX.match(str(error)) if type(error) is TypeError else None
    if found is None:
        return error
    told = f"ctx.{found[1]}: correct the call, because it would fail so each time"
    return PermanentError(told).with_traceback(error.__traceback__)
