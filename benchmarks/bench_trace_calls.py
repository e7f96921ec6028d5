"""What traces add to the code that a job runs, from its event to its end: processor time a job.

    python benchmarks/bench_trace_calls.py [--turns 40] [--jobs 100] [--quick] [--json]

`bench_traces.py` measures whole pipelines, among whose noise a few percent are lost. Here one
process runs the stages and a worker in memory (`streams.testing`), so that only the traces differ:
off, 1 % of the events recorded, all of them, and off again. In each turn each row runs some jobs of
one effect on a new pipeline, in a random order. Spans are queued, encoded for the collector, and
dropped.

It says how many microseconds the calls add. They are about those of a whole pipeline: there one
span of a poll belongs to many records, here to one; and there spans are also sent. Kafka's clients
and the ingress's HTTP are missing, so a percentage is that of the remaining code alone.

A figure is the median of all turns, a ratio that of each turn to `off` in the same turn. Every job
must end well; with 100 % each must be recorded whole, with 1 % some of a thousand or more and at
most a tenth, and no span be lost: else the exit code is 1.
"""

from __future__ import annotations

import logging
import random
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import count
from statistics import median
from unittest.mock import patch

import structlog
from bench_app import app
from harness import Result, arguments, report
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from streams.testing import Bench, admission
from streams.tracing import conventions as names
from streams.tracing import loss, spans
from streams.tracing.sdk import BoundedQueue, provider_of
from streams.tracing.wanted import Wanted

OFF, AGAIN = "off", "off again"
SHARES = {OFF: None, "1 %": 0.01, "100 %": 1.0, AGAIN: None}
TIME, ADDED, RATIO, SPANS = "processor time a job", "added to off", f"to {OFF}", "spans a job"
REQUEST, WARM = "POST /v1/hooks/{tenant_id}/{source}", 5
FEW = 1_000
"""Of fewer jobs, 1 % may well be none."""
_NUMBERS = count()


class Encoding(SpanExporter):
    """Encodes spans as OTLP's exporter does, counts them, and sends nothing."""

    def __init__(self) -> None:
        self.spans = self.roots = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        self.spans += len(spans)
        self.roots += sum(span.name == REQUEST for span in spans)
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

    def turn(self, jobs: int) -> float:
        """Processor time a job in microseconds, of all threads."""
        with Bench(app, patience=600) as bench:
            for _ in range(WARM):
                run_one(bench)
            spans.record_with(self._provider.get_tracer("tidegate") if self._provider else None)
            began = time.process_time()
            for _ in range(jobs):
                run_one(bench)
            if self._provider is not None and not self._provider.force_flush():
                sys.exit(f"{self.name}: the spans were not exported in time")
            took = time.process_time() - began
            spans.record_with(None)
        self.jobs += jobs
        return took * 1e6 / jobs

    @property
    def fault(self) -> bool:
        """Whether it has not recorded the share that it should, or not whole."""
        if self.share == 1:
            return self.exporter.roots != self.jobs or self.exporter.spans % self.jobs != 0
        least = self.jobs >= FEW
        return self.share is not None and not least <= self.exporter.roots <= self.jobs / 10


def run_one(bench: Bench) -> None:
    """Deliver an event within the span of its request, as an ingress does, and run its job."""
    attributes = {names.METHOD: "POST", names.TENANT: "acme", names.SOURCE: "test"}
    with spans.root(None, REQUEST, attributes):
        job = bench.event("ticket.created", {"id": next(_NUMBERS)}, job="one_effect")
    if job.run().status != "succeeded":
        sys.exit(f"a job is {job.status}")


def main() -> None:
    chosen = parse()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    # The benches of an application's tests sample every trace; an ingress asks the sampler.
    with patch.object(admission, "new_traceparent", lambda: spans.carried_on(None)):
        rows = [Row(name, share) for name, share in SHARES.items()]
        turns = [in_turn(rows, chosen.jobs) for _ in range(chosen.turns)]
    report("trace calls", list(figures(rows, turns)), as_json=chosen.json)
    lost = sum(
        sample.value
        for each in loss.LOST.collect()
        for sample in each.samples
        if sample.name.endswith("_total")
    )
    sys.exit(bool(lost) or any(row.fault for row in rows))


def parse() -> Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=100, help="of each row in a turn")
    parser.add_argument("--quick", action="store_true", help="two short turns")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.turns, chosen.jobs = 2, 50
    return chosen


def in_turn(rows: Sequence[Row], jobs: int) -> dict[str, float]:
    """The processor time a job of each row."""
    return {row.name: row.turn(jobs) for row in random.sample(rows, len(rows))}


def figures(rows: Sequence[Row], turns: Sequence[dict[str, float]]) -> Iterator[Result]:
    for row in rows:
        yield Result(row.name, TIME, median(turn[row.name] for turn in turns), "us")
        yield Result(row.name, SPANS, row.exporter.spans / row.jobs, "spans")
        if row.name != OFF:
            added = median(turn[row.name] - turn[OFF] for turn in turns)
            yield Result(row.name, ADDED, added, "us")
            ratio = median(turn[row.name] / turn[OFF] for turn in turns)
            yield Result(row.name, RATIO, 100 * ratio, "%")


if __name__ == "__main__":
    main()
