"""What becomes of a run whose handler asks for other steps than its job has."""

from __future__ import annotations

from streams.errors import HistoryDiverged
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
        session.stop(raised(error))
        raise RunStopped(str(error)) from error
