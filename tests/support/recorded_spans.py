"""Traces that are kept in memory, for tests of what is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

from streams.tracing import spans
from streams.tracing.sdk import provider_of
from streams.tracing.wanted import Wanted

WANTED = Wanted("http/protobuf", "parentbased_always_on", 1.0, 2_048, 512, 5_000)
SAMPLED = f"00-{'a' * 32}-{'b' * 16}-01"
UNSAMPLED = f"00-{'a' * 32}-{'b' * 16}-00"


class Recorded:
    """The spans that have ended, in that order."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()

    def __len__(self) -> int:
        return len(self.all)

    @property
    def all(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.all]

    def only(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def text(self) -> str:
        """Everything that would be exported."""
        return "\n".join(span.to_json() for span in self.all)


@contextmanager
def recording(sampler: str = "parentbased_always_on", ratio: float = 1.0) -> Iterator[Recorded]:
    """Traces on, within the block, as a process has them."""
    recorded = Recorded()
    wanted = Wanted("http/protobuf", sampler, ratio, 2_048, 512, 5_000)
    provider = provider_of(wanted, {}, SimpleSpanProcessor(recorded.exporter))
    spans.record_with(provider.get_tracer("tidegate"))
    try:
        yield recorded
    finally:
        spans.record_with(None)


def context(span: ReadableSpan) -> SpanContext:
    """The ids of a span."""
    found = span.get_span_context()
    assert found is not None
    return found


def traceparent(span: ReadableSpan) -> str:
    """A span as W3C Trace Context writes it."""
    found = context(span)
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"


def parent_id(span: ReadableSpan) -> int:
    return span.parent.span_id if span.parent else 0


def linked(span: ReadableSpan) -> list[tuple[int, str]]:
    """The span ids of its links, and why each is there."""
    return [
        (link.context.span_id, str((link.attributes or {}).get("tidegate.link", "")))
        for link in span.links
    ]
