"""Records spans. While traces are off, or a trace is not sampled, each call costs a comparison.

The root of a trace decides whether it is recorded: an ingress, or the operator's API. All other
spans are recorded exactly if the trace that they belong to is.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar, Token
from typing import Protocol

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
)

from streams.serde.headers import continued_trace
from streams.tracing import carried
from streams.tracing import conventions as names
from streams.tracing.conventions import Attributes

INTERNAL, CLIENT, SERVER = SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.SERVER
PRODUCER, CONSUMER = SpanKind.PRODUCER, SpanKind.CONSUMER
MOST_LINKS = 128
"""Links of one span; the SDK drops more (OTEL_SPAN_LINK_COUNT_LIMIT)."""

_tracer: Tracer | None = None
NEXT_SPAN_ID: ContextVar[int | None] = ContextVar("next_span_id", default=None)
"""The id that the span which is being started must get; None for a random one."""


class Opened(Protocol):
    """A span for the time of a `with` block, in which it is the current one.

    An error that leaves the block is noted by its type alone.
    """

    def __enter__(self) -> Span: ...

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None: ...


class _Nothing:
    """Stands for a span that is not recorded."""

    def __enter__(self) -> Span:
        return INVALID_SPAN

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        pass


class _Current:
    """A class, not a generator: that would add frames to the tracebacks of handlers' errors."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._token: Token[Context] | None = None

    def __enter__(self) -> Span:
        self._token = attach(trace.set_span_in_context(self._span))
        return self._span

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            failed(self._span, kind.__qualname__)
        if self._token is not None:
            detach(self._token)
        self._span.end()


NOTHING: Opened = _Nothing()


def record_with(tracer: Tracer | None) -> None:
    """Record with this tracer from now on; None turns traces off."""
    global _tracer  # noqa: PLW0603
    _tracer = tracer


def on() -> bool:
    """Whether this process records traces."""
    return _tracer is not None


def root(
    given: str | None,
    name: str,
    attributes: Attributes,
    kind: SpanKind = SERVER,
    began: int | None = None,
) -> Opened:
    """The first span of a trace, or the continuation of a sender's; the sampler decides on it.

    `began` is in nanoseconds since the epoch; None for now.
    """
    if _tracer is None:
        return NOTHING
    span = _tracer.start_span(
        name, _within(carried.context_of(given)), kind, attributes, start_time=began
    )
    return _Current(span) if span.is_recording() else NOTHING


def within(
    traceparent: str | None,
    name: str,
    attributes: Attributes,
    kind: SpanKind = INTERNAL,
    links: Iterable[Link] = (),
    span_id: int | None = None,
) -> Opened:
    """A span in the trace that a record carries; nothing if that is not sampled."""
    if _tracer is None or not carried.is_sampled(traceparent):
        return NOTHING
    span = _start(name, carried.context_of(traceparent), kind, attributes, links, span_id, None)
    return _Current(span)


def child(name: str, attributes: Attributes, kind: SpanKind = INTERNAL) -> Opened:
    """A span below the current one; nothing if there is none."""
    if _tracer is None or not trace.get_current_span().is_recording():
        return NOTHING
    return _Current(_tracer.start_span(name, None, kind, attributes))


def sending(topic: str, partition: int) -> Opened:
    """The span of sending to a topic, below the current one; nothing if there is none."""
    if _tracer is None or not trace.get_current_span().is_recording():
        return NOTHING
    return child(names.send(topic), names.sending(topic, partition=partition), PRODUCER)


def record(
    parent: SpanContext | None,
    name: str,
    attributes: Attributes,
    kind: SpanKind,
    times: tuple[int, int],
    links: Iterable[Link] = (),
    span_id: int | None = None,
    error: str | None = None,
) -> SpanContext | None:
    """Record a span that has ended; `times` are its beginning and end in nanoseconds.

    Returns None while traces are off.
    """
    if _tracer is None:
        return None
    span = _start(name, parent, kind, attributes, links, span_id, times[0])
    if error is not None:
        failed(span, error)
    span.end(times[1])
    return span.get_span_context()


def note(name: str, value: str | int) -> None:
    """Set an attribute of the current span."""
    if _tracer is not None:
        trace.get_current_span().set_attribute(name, value)


def failed(span: Span, error: str) -> None:
    """Note that a span's work failed; `error` is the type of the error, never its message."""
    span.set_attribute(names.ERROR_TYPE, error)
    span.set_status(Status(StatusCode.ERROR))


def link_to(traceparent: str | None, why: str) -> None:
    """Link the current span to the trace that a record carries."""
    context = None if _tracer is None else carried.context_of(traceparent)
    if context is not None:
        trace.get_current_span().add_link(context, {names.LINK: why})


def link(traceparent: str | None, span_id: int, why: str) -> list[Link]:
    """A link to a span of the trace that a record carries; none if the text is malformed."""
    context = carried.context_of(traceparent and carried.with_span(traceparent, span_id))
    return [] if context is None else [Link(context, {names.LINK: why})]


def current() -> str | None:
    """The current span as `traceparent`; None if there is none."""
    if _tracer is None:
        return None
    span = trace.get_current_span()
    return carried.text_of(span.get_span_context()) if span.is_recording() else None


def continuing(traceparent: str) -> str:
    """The current span if it belongs to this trace, else the trace as it is."""
    now = current()
    return now if now is not None and now[:35] == traceparent[:35] else traceparent


def carried_on(given: str | None) -> str:
    """The `traceparent` for what a request leads to; `given` is the sender's own.

    If traces are off, the sender's own or a new sampled root. Others then decide what they record.
    """
    if _tracer is None:
        return continued_trace(given)
    return current() or carried.unsampled(given)


def exemplar() -> dict[str, str] | None:
    """The current span as the exemplar of an observation; None if there is none."""
    if _tracer is None:
        return None
    span = trace.get_current_span()
    return exemplar_of(span.get_span_context()) if span.is_recording() else None


def exemplar_of(context: SpanContext) -> dict[str, str]:
    """A span as the exemplar of an observation, in the labels that Grafana looks for."""
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def _start(
    name: str,
    parent: SpanContext | None,
    kind: SpanKind,
    attributes: Attributes,
    links: Iterable[Link],
    span_id: int | None,
    began: int | None,
) -> Span:
    assert _tracer is not None  # noqa: S101
    token = NEXT_SPAN_ID.set(span_id)
    try:
        return _tracer.start_span(
            name, _within(parent), kind, attributes, list(links), start_time=began
        )
    finally:
        NEXT_SPAN_ID.reset(token)


def _within(parent: SpanContext | None) -> Context:
    """A context of its own: a root must not fall below a span that happens to be current."""
    return (
        Context()
        if parent is None
        else trace.set_span_in_context(NonRecordingSpan(parent), Context())
    )
