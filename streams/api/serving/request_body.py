"""What a handler reads from a request: its JSON body and its idempotency key."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from streams import user_json
from streams.api.refusal import Refusal, invalid, invalid_model

M = TypeVar("M", bound=BaseModel)


async def read_body(request: web.Request, model: type[M]) -> M:
    """Return the request's JSON object, validated.

    Raises:
        Refusal: 400 for a body that is not JSON, 422 naming each field at fault.
    """
    raw = await request.read()
    try:
        return validated(user_json.read(raw or b"{}"), model)
    except json.JSONDecodeError as error:
        detail = f"the body is not JSON ({error}): send one object"
        raise Refusal(400, "malformed-json", detail) from None


def validated(body: Any, model: type[M]) -> M:
    """Return a JSON object as a model.

    Raises:
        Refusal: 422 naming each field at fault.
    """
    if not isinstance(body, dict):
        raise invalid("body", "must be a JSON object")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise invalid_model(error) from None


def idempotency_key(request: web.Request) -> str | None:
    """Return the `Idempotency-Key` header, verbatim.

    Raises:
        Refusal: 422 for a blank or overlong one.
    """
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 0 < len(key.strip()) <= 255:
        raise invalid("Idempotency-Key", "must have 1 to 255 characters")
    return key
