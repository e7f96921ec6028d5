"""Middlewares of every call, outermost first: format, answer errors, authenticate, trace, check
rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from streams.api.live.http import takes_ticket
from streams.api.live.tickets import Tickets
from streams.api.operator_state import STATE
from streams.api.refusal import Refusal
from streams.api.schemas.http import ROOTS
from streams.api.serving import pages
from streams.errors import KafkaUnavailable
from streams.http.admin_token import AdminToken
from streams.http.problem import problem
from streams.tracing import conventions as names
from streams.tracing import spans

log = structlog.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""They need no token and no read model, and neither do pages. Schemas need no read model, and a
token if it is set so."""

_HTTP_ERRORS = {
    404: ("route-unknown", "no call has this path: docs/http-api.md lists the calls"),
    405: ("method-not-allowed", "this path does not take that method: use one that `Allow` names"),
}


@web.middleware
async def newline_ended(request: web.Request, handler: Handler) -> web.StreamResponse:
    """End JSON with a newline, so that a shell's prompt starts on a new line."""
    answer = await handler(request)
    if not isinstance(answer, web.Response) or not answer.content_type.endswith("json"):
        return answer
    if isinstance(answer.body, bytes) and not answer.body.endswith(b"\n"):
        answer.body += b"\n"
    return answer


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error as `application/problem+json`, never with a traceback."""
    try:
        return await handler(request)
    except Exception as error:
        answer = _answer(error)
        if answer is not None:
            return answer
        log.exception("call failed", method=request.method, path=request.path)
        return problem(500, "internal-error", "the operator failed; its log has the reason")


def _answer(error: Exception) -> web.StreamResponse | None:
    """The answer to a call that an error ended; None for one that is a bug."""
    if isinstance(error, web.HTTPException):
        return _of_http(error)
    refusal = _refusal(error)
    return None if refusal is None else refusal.response()


def _refusal(error: Exception) -> Refusal | None:
    """What an error of the tree, or of the read model, means to the caller."""
    match error:
        case Refusal():
            return error
        case KafkaUnavailable():
            detail = (
                f"not acknowledged by Kafka ({error}): send it again with the same Idempotency-Key"
            )
            return Refusal(503, "kafka-unavailable", detail)
        case sqlite3.Error():
            log.warning("read model does not answer", error=str(error))
            detail = "the operator's read model is being rebuilt: ask again in a few seconds"
            return Refusal(503, "not-ready", detail)
    return None


def authenticated(token: str, tickets: Tickets, *, open_schemas: bool) -> Middleware:
    """Refuse calls without the admin token, except a stream that a ticket opens."""
    admin = AdminToken(token)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if _is_open(request) or (open_schemas and _is_of_schemas(request)):
            return await handler(request)
        if takes_ticket(request, tickets):
            return await handler(request)
        return admin.refusal(request) or await handler(request)

    return check


@web.middleware
async def traced(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Trace calls that may change something; jobs that they submit belong to their traces."""
    resource = request.match_info.route.resource
    if not spans.on() or resource is None or request.method in (hdrs.METH_GET, hdrs.METH_HEAD):
        return await handler(request)
    name, given = f"{request.method} {resource.canonical}", request.headers.get("traceparent")
    attributes = {names.METHOD: request.method, names.ROUTE: resource.canonical}
    with spans.root(given, name, attributes) as span:
        try:
            answer = await handler(request)
        except Exception as error:
            answered = _answer(error)
            if answered is None:
                raise
            answer = answered
        span.set_attribute(names.STATUS_CODE, answer.status)
        if answer.status >= 500:
            spans.failed(span, str(answer.status))
        return answer


@web.middleware
async def caught_up(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse calls while rows are still missing: a missing row may still appear."""
    open_ = _is_open(request) or _is_of_schemas(request)
    if not open_ and not request.app[STATE].ready():
        raise not_ready()
    return await handler(request)


def not_ready() -> Refusal:
    """Return the refusal of a call while rows are missing."""
    late = "the operator has not read its topics to their end yet: ask again in a few seconds"
    return Refusal(503, "not-ready", late)


def _is_open(request: web.Request) -> bool:
    return request.path in OPEN_PATHS or request.path.startswith(pages.ROOTS)


def _is_of_schemas(request: web.Request) -> bool:
    return request.path.startswith(ROOTS)


def _of_http(error: web.HTTPException) -> web.StreamResponse:
    name, detail = _HTTP_ERRORS.get(error.status, ("bad-request", error.reason))
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        name, detail = "body-too-large", f"{error.text} Store it and send a link"
    allow = {"Allow": error.headers[hdrs.ALLOW]} if hdrs.ALLOW in error.headers else None
    return problem(error.status, name, detail, headers=allow)
