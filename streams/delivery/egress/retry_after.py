"""How long a receiver asks to be left alone (RFC 9110, section 10.2.3)."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from streams.process.wall_clock import wall_ms

LONGEST_SECONDS = 86_400.0


def retry_after_seconds(value: str | None, date: str | None = None) -> float | None:
    """Seconds of a `Retry-After` header, at most a day; None if absent or neither number nor date.

    A date counts from the answer's own `Date` header, so that the receiver's clock need not agree
    with ours; without one it counts from our clock. A date that has passed is 0.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_SECONDS)
    until = _date(text)
    if until is None:
        return None
    now = _date(date) if date else None
    since = now or datetime.fromtimestamp(wall_ms() / 1000, UTC)
    return min(max((until - since).total_seconds(), 0.0), LONGEST_SECONDS)


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
