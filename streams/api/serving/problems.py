"""Answers of HTTP to errors: to a refusal, to Kafka that is away, to a read model that is."""

from __future__ import annotations

import sqlite3

import orjson
import structlog
from aiohttp import hdrs, web

from streams.api.refusal import Refusal
from streams.errors import KafkaUnavailable
from streams.http.problem import problem
from streams.limits.backlog import RETRY_SECONDS

log = structlog.get_logger(__name__)

_RETRY_AFTER = {503: 2, 429: RETRY_SECONDS}
_HTTP_ERRORS = {
    404: ("route-unknown", "no call has this path: docs/http-api.md lists the calls"),
    405: ("method-not-allowed", "this path does not take that method: use one that `Allow` names"),
}


def answer_to(error: Exception) -> web.StreamResponse | None:
    """Return the answer to a call that an error ended; None for one that is a bug."""
    if isinstance(error, web.HTTPException):
        return _of_http(error)
    if isinstance(error, web.RequestPayloadError):
        told = "the body is not encoded as its headers say: send it plain, with its length"
        return problem(400, "bad-request", told)
    refusal = refusal_of(error)
    return None if refusal is None else refused(refusal)


def refused(refusal: Refusal) -> web.Response:
    """Return the answer that a refusal is."""
    seconds = _RETRY_AFTER.get(refusal.status)
    return web.Response(
        status=refusal.status,
        body=orjson.dumps(refusal.json(), option=orjson.OPT_APPEND_NEWLINE),
        content_type=refusal.content_type,
        headers={} if seconds is None else {"Retry-After": str(seconds)},
    )


def not_ready() -> Refusal:
    """Return the refusal of a call while rows are missing."""
    late = "the operator has not read its topics to their end yet: ask again in a few seconds"
    return Refusal(503, "not-ready", late)


def refusal_of(error: Exception) -> Refusal | None:
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


def _of_http(error: web.HTTPException) -> web.StreamResponse:
    name, detail = _HTTP_ERRORS.get(error.status, ("bad-request", error.reason))
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        name, detail = "body-too-large", f"{error.text} Store it and send a link"
    allow = {"Allow": error.headers[hdrs.ALLOW]} if hdrs.ALLOW in error.headers else None
    return problem(error.status, name, detail, headers=allow)
