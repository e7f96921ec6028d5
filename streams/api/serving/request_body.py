"""What a handler reads from a request: its JSON body, its idempotency key, names, its trace."""

from __future__ import annotations

import json
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel

from streams import user_json
from streams.api.fields import checked_name, validated
from streams.api.refusal import Refusal
from streams.api.serving.call import STANDS
from streams.tracing.spans import carried_on

M = TypeVar("M", bound=BaseModel)


async def read_body(request: web.Request, model: type[M]) -> M:
    """Return the request's JSON object, validated.

    Raises:
        Refusal: 400 for a body that is not JSON, 401 for a caller who may call no more when it has
            come, 422 naming each field at fault.
    """
    raw = await request.read()
    _require_standing(request)
    try:
        return validated(user_json.read(raw or b"{}"), model)
    except json.JSONDecodeError as error:
        detail = f"the body is not JSON ({error}): send one object"
        raise Refusal(400, "malformed-json", detail) from None


def _require_standing(request: web.Request) -> None:
    """Check that who asks may still do so: a body can be sent as slowly as its sender likes.

    Raises:
        Refusal: 401, the token or the session has ended meanwhile.
    """
    stands = request.get(STANDS)
    if stands is not None and not stands():
        raise Refusal(401, "unauthorized", "the token or session ended before the body had come")


def name_in(request: web.Request, part: str) -> str:
    """Return a name of the path that a call may create something under.

    Raises:
        Refusal: 422, it is no name.
    """
    return checked_name(part, request.match_info[part])


def traceparent(request: web.Request) -> str:
    """Return the span of this call, else the caller's W3C trace context or a new root."""
    return carried_on(request.headers.get("traceparent"))
