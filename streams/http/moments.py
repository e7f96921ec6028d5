"""Times as people and programs read them: RFC 3339 outside, milliseconds since 1970 inside."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST_MS, _LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The first and the last millisecond that RFC 3339 can write: of the years 1 and 9999."""


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


def writable(at: int) -> int:
    """The nearest time within the years 1 to 9999.

    Senders and applications choose times: an absurd one must not end a list that holds it.
    """
    return min(max(at, _EARLIEST_MS), _LATEST_MS)


def moment(at: int) -> datetime:
    """The nearest time within the years 1 to 9999, in UTC."""
    return _EPOCH + timedelta(milliseconds=writable(at))


def rfc3339(at: int | None) -> str | None:
    """A time as `2026-11-21T04:05:06.789Z`; the nearest within the years 1 to 9999."""
    return None if at is None else written(moment(at))


def written(at: datetime) -> str:
    """A time in UTC as RFC 3339, to the millisecond."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
