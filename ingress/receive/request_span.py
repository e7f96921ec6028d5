"""The span of a webhook: the root of its event's trace, or a child of its sender's span.

It begins with the request, but only once the signature held: what strangers send is not traced.
"""

from __future__ import annotations

import time

from aiohttp import web
from opentelemetry.trace import Span

from ingress.receive.duplicates import Receipt
from ingress.receive.problems import Refused
from ingress.tenants.sources import Source
from streams.tracing import conventions as names
from streams.tracing import spans

_ROUTE = "/v1/hooks/{tenant_id}/{source}"


def request_span(given: str | None, source: Source, started: float) -> spans.Opened:
    """The span of a request that `started` on `perf_counter`; `given` is its `traceparent`."""
    if not spans.on():
        return spans.NOTHING
    began = time.time_ns() - round((time.perf_counter() - started) * 1e9)
    attributes = {
        names.METHOD: "POST",
        names.ROUTE: _ROUTE,
        names.TENANT: source.tenant_id,
        names.SOURCE: source.name,
    }
    return spans.root(given, f"POST {_ROUTE}", attributes, spans.SERVER, began)


def note_answer(span: Span, response: web.Response, outcome: str, receipt: Receipt) -> None:
    """Note how a request was answered, and which event and job it names."""
    if not span.is_recording():
        return
    span.set_attribute(names.STATUS_CODE, response.status)
    span.set_attribute(names.OUTCOME, outcome)
    span.set_attribute(names.EVENT, receipt.event_id)
    if receipt.job_id is not None:
        span.set_attribute(names.JOB, receipt.job_id)


def note_refusal(span: Span, refused: Refused) -> None:
    """Note that a request was refused; only a status of 5xx is an error of ours."""
    problem = refused.problem
    span.set_attribute(names.STATUS_CODE, problem.status)
    span.set_attribute(names.OUTCOME, problem.name)
    if problem.status >= 500:
        spans.failed(span, problem.name)
