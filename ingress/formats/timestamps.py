"""Parses times in the forms that senders write."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_UNIX = re.compile(r"[0-9]{1,13}(\.[0-9]{1,9})?", re.ASCII)
_INTERNET = re.compile(
    r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}(:[0-9]{2}){2} [+-][0-9]{4}"
)
_MILLISECONDS_FROM = 100_000_000_000
"""A number this large counts milliseconds: as seconds it would be in the year 5138."""


def parse_timestamp(text: str) -> float | None:
    """Seconds since the epoch from ISO 8601, RFC 5322, or a Unix time in seconds or milliseconds.

    An ISO time without an offset is taken as UTC. Returns None for anything else.
    """
    if not text.isascii():
        return None
    if _UNIX.fullmatch(text):
        number = float(text)
        return number / 1000 if number >= _MILLISECONDS_FROM else number
    try:
        internet = _INTERNET.fullmatch(text) is not None
        moment = parsedate_to_datetime(text) if internet else datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
