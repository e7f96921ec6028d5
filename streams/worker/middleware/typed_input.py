"""The input of a typed handler, which is checked before its code runs."""

from __future__ import annotations

from streams.worker.handler.handler_error import result_of
from streams.worker.handler.run_result import RunResult
from streams.worker.middleware.contract import GoOn, Middleware, Run, WorkerParts


class TypedInput(Middleware):
    """Gives `ctx.input` the declared type; an input that does not fit fails the job."""

    def __init__(self, worker: WorkerParts) -> None:
        self._jobs = worker.app.jobs

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        """Go on with an input that fits."""
        try:
            run.ctx.input = await self._jobs[run.job_type].types.input_of(run.ctx, run.lease)
        except BaseException as error:
            return result_of(error, run.session)
        return await go_on()
