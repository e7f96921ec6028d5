"""Values as the API shows them: plain JSON."""

from __future__ import annotations

import json
from typing import Any

import orjson

from streams.errors import DecodeError

Json = dict[str, Any]


def parsed(text: str | None) -> Any:
    """Return JSON text as JSON; other text stays text, so that it cannot hide the whole job."""
    if text is None:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def json_bytes(shown: Json | None) -> bytes:
    """Return what is shown as JSON.

    orjson writes 254 levels. A value of a handler may have as many, and lies inside what is shown.
    """
    try:
        return orjson.dumps(shown)
    except TypeError:
        return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()


def checked_json(topic: str, text: bytes) -> str:
    """Return a record's JSON text.

    Raises:
        DecodeError: it is not JSON.
    """
    try:
        orjson.loads(text)
        return text.decode()
    except ValueError as error:
        raise DecodeError(f"{topic}: the value is not JSON: {error}") from error


def trace_id(traceparent: str | None) -> str | None:
    """Return the second field of a W3C traceparent."""
    fields = (traceparent or "").split("-")
    return fields[1] if len(fields) == 4 else None
