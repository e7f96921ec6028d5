"""The `Idempotency-Key` of a call: a repetition under the same key does nothing again."""

from __future__ import annotations

from aiohttp import web

from streams.api.refusal import invalid


def idempotency_key(request: web.Request) -> str | None:
    """Return the `Idempotency-Key` header, verbatim.

    Raises:
        Refusal: 422 for a blank or overlong one.
    """
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 0 < len(key.strip()) <= 255:
        raise invalid("Idempotency-Key", "must have 1 to 255 characters")
    return key
