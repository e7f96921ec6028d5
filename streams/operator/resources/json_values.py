"""Values as the API shows them: plain JSON, times as RFC 3339 in UTC with milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from streams.errors import DecodeError

Json = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST_MS, _LATEST_MS = -62_135_596_800_000, 253_402_300_799_999


def rfc3339(milliseconds: int | None) -> str | None:
    """Return a time as `2026-11-21T04:05:06.789Z`.

    A time outside the years 1 to 9999 becomes the nearest one inside: one record with an absurd
    time must not make the lists that hold it fail.
    """
    if milliseconds is None:
        return None
    within = min(max(milliseconds, _EARLIEST_MS), _LATEST_MS)
    moment = _EPOCH + timedelta(milliseconds=within)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parsed(text: str | None) -> Any:
    """Return JSON text as JSON; other text stays text, so that it cannot hide the whole job."""
    if text is None:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


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
