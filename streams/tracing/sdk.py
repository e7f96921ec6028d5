"""OpenTelemetry's SDK as Tidegate uses it; imported only where traces are wanted.

Exporting never holds up the work: ended spans go to a bounded queue, and a thread of the SDK sends
them. What has no room or finds no collector is counted and dropped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanKind, get_current_span
from opentelemetry.trace.span import TraceState
from opentelemetry.util.types import Attributes

from streams.errors import ConfigError
from streams.tracing import loss
from streams.tracing.spans import NEXT_SPAN_ID
from streams.tracing.wanted import Wanted


def provider(wanted: Wanted, attributes: Mapping[str, str]) -> TracerProvider:
    """A provider that exports as it is wanted; `attributes` describe this process.

    Raises:
        ConfigError: the SDK cannot use one of the variables.
    """
    _silence(logging.getLogger("opentelemetry"))
    try:
        return provider_of(wanted, attributes, BoundedQueue(wanted, _exporter(wanted)))
    except Exception as error:  # its errors have no type in common
        raise ConfigError(f"traces cannot be recorded as OTEL_* say: {error}") from error


def provider_of(
    wanted: Wanted, attributes: Mapping[str, str], processor: SpanProcessor
) -> TracerProvider:
    """A provider that gives its spans to this processor."""
    made = TracerProvider(
        sampler(wanted),
        Resource.create(dict(attributes)),
        shutdown_on_exit=False,
        id_generator=_Ids(),
    )
    made.add_span_processor(processor)
    return made


def sampler(wanted: Wanted) -> Sampler:
    """The sampler of that name, which also records every batch that has a recorded record."""
    own = wanted.sampler.removeprefix("parentbased_")
    chosen = {"always_on": ALWAYS_ON, "always_off": ALWAYS_OFF}.get(own)
    made: Sampler = chosen or TraceIdRatioBased(wanted.ratio)
    if own != wanted.sampler:
        made = ParentBased(made)
    return made if made is ALWAYS_OFF else _WithLinked(made)


class BoundedQueue(BatchSpanProcessor):
    """Keeps ended spans until they are exported; drops and counts those beyond its size."""

    def __init__(self, wanted: Wanted, exporter: SpanExporter) -> None:
        self._size = wanted.queue
        self._waiting = 0
        self._lock = threading.Lock()
        self._told = loss.Told()
        super().__init__(
            _Counted(exporter, self._taken, self._told), wanted.queue, wanted.delay_ms, wanted.batch
        )

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span; never waits."""
        with self._lock:
            full = self._waiting >= self._size
            self._waiting += not full
        if full:
            loss.lost(1, "queue")
            self._told.losing("queue")
        else:
            super().on_end(span)

    def _taken(self, number: int) -> None:
        with self._lock:
            self._waiting -= number


class _Counted(SpanExporter):
    """Counts what an exporter does; its errors end here."""

    def __init__(
        self, exporter: SpanExporter, taken: Callable[[int], None], told: loss.Told
    ) -> None:
        self._exporter = exporter
        self._taken = taken
        self._told = told

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._taken(len(spans))
        try:
            result = self._exporter.export(spans)
        except Exception:
            result = SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            loss.EXPORTED.inc(len(spans))
            self._told.exported()
        else:
            loss.lost(len(spans), "export")
            self._told.losing("export")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class _Ids(RandomIdGenerator):
    """Random ids, except where `streams.tracing.spans` names the next one."""

    def generate_span_id(self) -> int:
        return NEXT_SPAN_ID.get() or super().generate_span_id()


class _WithLinked(Sampler):
    """Records a root that is linked to a recorded trace: a batch with a traced record."""

    def __init__(self, inner: Sampler) -> None:
        self._inner = inner

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        is_root = not get_current_span(parent_context).get_span_context().is_valid
        if is_root and any(link.context.trace_flags.sampled for link in links or ()):
            return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)
        return self._inner.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )

    def get_description(self) -> str:
        return self._inner.get_description()


def _silence(logger: logging.Logger) -> None:
    """Show none of the SDK's own log lines, which repeat: losses are told once, by `loss`."""
    logger.addHandler(logging.NullHandler())
    logger.propagate = False


def _exporter(wanted: Wanted) -> SpanExporter:
    if wanted.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
            OTLPSpanExporter as OverGrpc,
        )

        return OverGrpc()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
