"""The span of a run: it belongs to the lease, and everything that the handler does to the run."""

from __future__ import annotations

from opentelemetry.trace import Span

from streams.runtime.link import LINK
from streams.serde.records import Lease
from streams.serde.run_ends import FAILED, LOST, RETRY, REVIEW
from streams.tracing import carried, spans
from streams.tracing import conventions as names
from streams.worker.handler.run_result import RunResult
from streams.worker.middleware.contract import GoOn, Middleware, Run, WorkerParts

_BAD = {RETRY, FAILED, REVIEW, LOST}


class Tracing(Middleware):
    """Opens a run's span, in which log lines and observations find the trace."""

    def __init__(self, worker: WorkerParts) -> None:
        self._link = worker.link

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        """Within the span, which notes how the run ended."""
        with _span(run.lease, self._link.worker_id) as span:
            run_result = await go_on()
            _note(span, run_result)
            return run_result


def _span(lease: Lease, worker_id: str) -> spans.Opened:
    if not spans.on() or not carried.is_sampled(lease.traceparent):
        return spans.NOTHING
    attributes = names.processing(LINK, system="tidegate") | {
        names.TENANT: lease.tenant_id,
        names.JOB: lease.job_id,
        names.JOB_TYPE: lease.type,
        names.RUN: lease.run_id,
        names.WORKER: worker_id,
        names.ATTEMPT: lease.attempt,
        names.EPOCH: lease.epoch,
    }
    return spans.within(lease.traceparent, names.process(LINK), attributes, spans.CONSUMER)


def _note(span: Span, run_result: RunResult) -> None:
    """Note how a run ended; of an error only its type, which its text begins with."""
    if not span.is_recording():
        return
    span.set_attribute(names.OUTCOME, run_result.status)
    if run_result.status in _BAD:
        type_, colon, _ = (run_result.error or "").partition(":")
        named = colon and run_result.status in (RETRY, FAILED) and type_.isidentifier()
        spans.failed(span, type_ if named else run_result.status)
