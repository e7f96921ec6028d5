"""How long handlers take, by job type and by how their runs ended."""

from __future__ import annotations

from streams.tracing.spans import exemplar
from streams.worker.handler.run_result import RunResult
from streams.worker.metrics import HANDLER_SECONDS
from streams.worker.middleware.contract import GoOn, Middleware, Run, WorkerParts


class Metrics(Middleware):
    """Counts `tidegate_worker_handler_seconds`; the span of the run is the exemplar."""

    def __init__(self, worker: WorkerParts) -> None:
        self._clock = worker.clock

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        """Observe how long the run took."""
        started = self._clock()
        run_result = await go_on()
        observed = HANDLER_SECONDS.labels(run.job_type, run_result.status)
        observed.observe(self._clock() - started, exemplar())
        return run_result
