"""Times in requests and answers: RFC 3339 outside, milliseconds since 1970 inside."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)
_LATEST_MS = 253_402_300_799_999
"""The last millisecond that RFC 3339 can write."""


def milliseconds(text: str) -> int:
    """Return an RFC 3339 time; the fraction is rounded up, so that nothing fires early (G4).

    Raises:
        ValueError: it is not such a time.
    """
    if not _RFC3339.fullmatch(text):
        raise ValueError("must be an RFC 3339 time with an offset, as 2026-11-21T09:00:00Z")
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise ValueError(f"no such time: {error}") from None
    whole, micros = int(moment.replace(microsecond=0).timestamp()), moment.microsecond
    found = whole * 1000 + -(-micros // 1000)
    if not 0 <= found <= _LATEST_MS:
        raise ValueError("must lie between the years 1970 and 9999, in UTC")
    return found


def text(at: int) -> str:
    """Milliseconds as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
