"""Middlewares of every call, outermost first: format, answer errors, trace, check rows.

`serving/access.py` has the one that authenticates, which comes before the tracing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from aiohttp import hdrs, web

from streams.api.serving.access import is_of_schemas, is_open
from streams.api.serving.problems import answer_to, not_ready
from streams.api.serving.state import STATE
from streams.http.problem import problem
from streams.tracing import conventions as names
from streams.tracing import spans

log = structlog.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


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
        answer = answer_to(error)
        if answer is not None:
            return answer
        if isinstance(error, ConnectionError) and request.transport is None:
            return problem(400, "bad-request", "the caller left before the body had come")
        log.exception("call failed", method=request.method, path=request.path)
        return problem(500, "internal-error", "the operator failed; its log has the reason")


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
            answered = answer_to(error)
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
    open_ = is_open(request) or is_of_schemas(request)
    if not open_ and not request.app[STATE].ready():
        raise not_ready()
    return await handler(request)
