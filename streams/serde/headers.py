"""Headers of records, which may hold anything: any writer of a topic chooses them."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 256
"""In bytes; a `traceparent` has 55 (W3C Trace Context, "traceparent Header")."""


def traceparent(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    """The trace to which a record belongs; None if it names none that could be valid."""
    for name, value in headers:
        if name == "traceparent" and value and value.isascii() and len(value) <= _LONGEST:
            return value.decode()
    return None
