"""What traces add to the code that a job runs, from its event to its end: processor time a job.

    python benchmarks/bench_trace_calls.py [--turns 40] [--jobs 100] [--quick] [--json]

`bench_traces.py` measures whole pipelines, among whose noise a few percent are lost. Here one
process runs the stages and a worker in memory (`streams.testing`), so only the traces differ: off,
1 % of the events recorded, all of them, and off again. Each row takes a turn of some jobs with one
effect each, in changing order. Spans are queued, encoded for the collector, and dropped.

Without Kafka's clients, the ingress's HTTP and the network a job costs a fraction of what it does
for real, so a percent here is less than a percent there; the microseconds are the same. A figure is
the median of all turns, a ratio that of each turn to `off` in the same turn. Every job must end
well, and a row must record the share that it should: else the exit code is 1.
"""

from __future__ import annotations

import logging
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import count
from statistics import median

import structlog
from bench_app import app
from harness import Result, arguments, report
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from streams.testing import Bench, admission
from streams.tracing import conventions as names
from streams.tracing import spans
from streams.tracing.sdk import BoundedQueue, provider_of
from streams.tracing.wanted import Wanted

OFF, AGAIN = "off", "off again"
SHARES = {OFF: None, "1 %": 0.01, "100 %": 1.0, AGAIN: None}
TIME, ADDED, RATIO, SPANS = "processor time a job", "added to off", f"to {OFF}", "spans a job"
_NUMBERS = count()


class Encoding(SpanExporter):
    """Encodes spans as OTLP's exporter does, counts them, and sends nothing."""

    def __init__(self) -> None:
        self.exported = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        self.exported += len(spans)
        return SpanExportResult.SUCCESS


class Row:
    """A share of the events whose traces are recorded; None for traces that are off."""

    def __init__(self, name: str, share: float | None) -> None:
        self.name, self.share = name, share
        self.exporter = Encoding()
        self.jobs = 0
        self._provider: TracerProvider | None = None
        if share is not None:
            wanted = Wanted("grpc", "parentbased_traceidratio", share, 8_192, 512, 5_000)
            self._provider = provider_of(wanted, {}, BoundedQueue(wanted, self.exporter))

    def turn(self, bench: Bench, jobs: int) -> float:
        """Processor time a job in microseconds, of all threads."""
        spans.record_with(self._provider.get_tracer("tidegate") if self._provider else None)
        began = time.process_time()
        for _ in range(jobs):
            run_one(bench)
        if self._provider is not None:
            self._provider.force_flush()
        spans.record_with(None)
        self.jobs += jobs
        return (time.process_time() - began) * 1e6 / jobs

    @property
    def fault(self) -> bool:
        """Whether it has recorded what it should not, or not what it should."""
        recorded = self.exporter.exported
        if self.share is None:
            return recorded > 0
        return recorded < self.jobs if self.share == 1 else recorded >= self.jobs


def run_one(bench: Bench) -> None:
    """Deliver an event within the span of its request, as an ingress does, and run its job."""
    attributes = {names.METHOD: "POST", names.TENANT: "acme", names.SOURCE: "test"}
    with spans.root(None, "POST /v1/hooks/{tenant_id}/{source}", attributes):
        job = bench.event("ticket.created", {"id": next(_NUMBERS)}, job="one_effect")
    job.run()
    if job.status != "succeeded":
        sys.exit(f"{job.job_id} is {job.status}")


def main() -> None:
    chosen = parse()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    # The benches of an application's tests sample every trace; an ingress asks the sampler.
    admission.new_traceparent = lambda: spans.carried_on(None)
    rows = [Row(name, share) for name, share in SHARES.items()]
    turns = [in_turn(rows, number, chosen.jobs) for number in range(chosen.turns + 1)][1:]
    report("trace calls", list(figures(rows, turns)), as_json=chosen.json)
    sys.exit(any(row.fault for row in rows))


def parse() -> Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=100, help="of each row in a turn")
    parser.add_argument("--quick", action="store_true", help="two short turns")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.turns, chosen.jobs = 2, 50
    return chosen


def in_turn(rows: Sequence[Row], number: int, jobs: int) -> dict[str, float]:
    """The processor time a job of each row, all on one new pipeline."""
    by = number % len(rows)
    with Bench(app, patience=600) as bench:
        run_one(bench)
        return {row.name: row.turn(bench, jobs) for row in (*rows[by:], *rows[:by])}


def figures(rows: Sequence[Row], turns: Sequence[dict[str, float]]) -> Iterator[Result]:
    for row in rows:
        yield Result(row.name, TIME, median(turn[row.name] for turn in turns), "us")
        yield Result(row.name, SPANS, row.exporter.exported / row.jobs, "spans")
        if row.name != OFF:
            added = median(turn[row.name] - turn[OFF] for turn in turns)
            yield Result(row.name, ADDED, added, "us")
            ratio = median(turn[row.name] / turn[OFF] for turn in turns)
            yield Result(row.name, RATIO, 100 * ratio, "%")


if __name__ == "__main__":
    main()
