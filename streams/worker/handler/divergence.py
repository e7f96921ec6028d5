"""What becomes of a run whose handler asks for other steps than its job has."""

from __future__ import annotations

from streams.errors import HistoryDiverged
from streams.serde.step_ids import is_inside
from streams.worker.handler.calls import Call
from streams.worker.handler.history import History
from streams.worker.handler.run_result import RunStopped, raised
from streams.worker.handler.run_session import RunSession


async def may_begin(session: RunSession, history: History, call: Call) -> None:
    """Return if a call without a result may begin; otherwise the run ends here.

    Tools that other tasks call have answered by then, so that their outcomes are known.

    Raises:
        RunStopped: the history diverged.
        LeaseLost: the run is over.
    """
    try:
        await history.check(call)
    except HistoryDiverged as error:
        if not is_inside(call.branch):
            await session.calls_ended()
        session.stop(raised(error))
        raise RunStopped(str(error)) from error
