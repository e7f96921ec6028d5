"""What becomes of a run whose handler asks for other steps than its job has."""

from __future__ import annotations

from typing import NoReturn

from streams.errors import HistoryDiverged
from streams.serde.step_ids import is_inside
from streams.worker.handler.calls import Call
from streams.worker.handler.history import History
from streams.worker.handler.run_result import RunStopped, raised
from streams.worker.handler.run_session import RunSession


async def may_begin(session: RunSession, history: History, call: Call) -> None:
    """Return if a call without a result may begin; otherwise the run ends here.

    Raises:
        RunStopped: the history diverged.
        LeaseLost: the run is over.
    """
    try:
        await history.check(call)
    except HistoryDiverged as error:
        await diverge(session, call, error)


async def diverge(session: RunSession, call: Call, error: HistoryDiverged) -> NoReturn:
    """End the run, after the tools that other tasks call: their outcomes are known then.

    Raises:
        RunStopped: always.
    """
    if not is_inside(call.branch):
        await session.calls_ended()
    session.stop(raised(error, session.redaction.text))
    raise RunStopped(str(error)) from error
