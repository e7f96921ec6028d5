"""The span of an attempt to deliver, in the trace of the event or job that it tells of."""

from __future__ import annotations

from urllib.parse import urlsplit

from opentelemetry.trace import Span

from streams.delivery.attempts import Attempt, Ended
from streams.tracing import carried, spans
from streams.tracing import conventions as names


def attempt_span(attempt: Attempt) -> spans.Opened:
    """The span of an attempt, linked to the attempt before it; the URL's path may be a secret."""
    row = attempt.row
    if not spans.on() or not carried.is_sampled(row.traceparent):
        return spans.NOTHING
    before = carried.attempt_span(row.delivery_id, row.attempts)
    links = spans.link(row.traceparent, before, names.ATTEMPT_BEFORE) if row.attempts else []
    attributes = {
        names.METHOD: "POST",
        names.TENANT: row.tenant_id,
        names.DELIVERY: row.delivery_id,
        names.ENDPOINT: row.endpoint_id,
        names.ATTEMPT: row.attempts + 1,
        **_server(attempt.url),
    }
    this = carried.attempt_span(row.delivery_id, row.attempts + 1)
    return spans.within(row.traceparent, "POST", attributes, spans.CLIENT, links, this)


def note_end(span: Span, ended: Ended) -> None:
    """Note how an attempt ended."""
    if not span.is_recording():
        return
    if ended.status is not None:
        span.set_attribute(names.STATUS_CODE, ended.status)
    if ended.error is not None:
        spans.failed(span, str(ended.status) if ended.error == "status" else ended.error)


def _server(url: str) -> dict[str, str | int]:
    try:
        parts = urlsplit(url)
        address = {names.SERVER_ADDRESS: parts.hostname} if parts.hostname else {}
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # the attempt is refused for it
        return {}
    return {**address, names.SERVER_PORT: port}
