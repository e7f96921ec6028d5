"""The check before a run, whether the job is still wanted."""

from __future__ import annotations

from streams.errors import PermanentError
from streams.serde.run_ends import CANCELLED
from streams.worker.handler.handler_error import result_of
from streams.worker.handler.run_result import RunResult
from streams.worker.middleware.contract import GoOn, Middleware, Run, WorkerParts


class Preflight(Middleware):
    """Calls what `@app.preflight` declares for the job's type; False cancels the job."""

    def __init__(self, worker: WorkerParts) -> None:
        self._checks = worker.app.preflights

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        """Go on with a wanted job. An error of the check counts like one of the handler."""
        check = self._checks.get(run.job_type)
        if check is not None:
            try:
                is_wanted: object = await check(run.ctx)
                if is_wanted is None:  # to cancel all jobs of a type for that would lose them
                    raise PermanentError("the preflight returned None: return True or False")
            except BaseException as error:
                return result_of(error, run.session)
            if not is_wanted:
                return RunResult(CANCELLED, error="preflight: no longer wanted")
        return await go_on()
