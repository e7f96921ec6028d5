"""What a run does when a limit has no room for a call of a tool or model."""

from __future__ import annotations

import asyncio

from streams.errors import PermanentError
from streams.serde import run_ends
from streams.worker.handler.run_result import RunResult, RunStopped
from streams.worker.handler.run_session import RunSession, in_call
from streams.worker.handler.values import is_label, to_json

_INNER_SECONDS = 1.0
"""How long a call within another one waits before it asks again."""
_MODEL_CHARS = 256


def check_model(model: object, what: str) -> None:
    """Check the name of a call's model.

    Raises:
        PermanentError: it is none.
    """
    if model is not None and not is_label(model, _MODEL_CHARS):
        raise PermanentError(f"{what}: model={model!r}: use a string of 1 to 256 characters")


async def asks_again(session: RunSession) -> bool:
    """Whether a call that found no room asks again; this waits until it has reason to.

    The run's own calls end first, because stopping the run would leave their outcomes unknown. One
    of them may have had the place. Within another call, nothing but asking again is left.

    Raises:
        LeaseLost: the run is over.
    """
    if in_call():
        await asyncio.sleep(_INNER_SECONDS)
    elif session.is_calling:
        await session.calls_ended()
    else:
        return False
    session.check()
    return True


def stopped(session: RunSession, tool: str | None, model: str | None, why: str) -> RunStopped:
    """End the run, because a limit has no room for its call: the job waits for room."""
    asked = to_json([tool, model], "the call that the run asked for")
    session.stop(RunResult(run_ends.FULL, asked, why))
    return RunStopped(why)
