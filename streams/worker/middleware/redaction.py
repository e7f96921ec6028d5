"""Takes secrets out of how a run ended, before that is logged, counted and sent.

`RunSession.letter` does the same for all that a run sends, so a run without this middleware leaks
nothing to a topic. What stands before it in the stack sees the result without secrets.
"""

from __future__ import annotations

from streams.worker.handler.redacted import redacted_result
from streams.worker.handler.run_result import RunResult
from streams.worker.middleware.contract import GoOn, Middleware, Run, WorkerParts


class Redacted(Middleware):
    """Redacts the result, the error and the traceback of a run, by the rules of the topology."""

    def __init__(self, _: WorkerParts) -> None:
        """The rules belong to the session of each run."""

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        """The result of the run without what redaction takes out."""
        return redacted_result(await go_on(), run.session.redaction)
