"""Headers of records, which may hold anything: whoever may write a topic chooses them."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 256
"""In bytes; a `traceparent` has 55 (W3C Trace Context, "traceparent Header")."""


def traceparent(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    """The trace that a record belongs to; None where it names none that could be one."""
    for name, value in headers:
        if name == "traceparent" and value and value.isascii() and len(value) <= _LONGEST:
            return value.decode()
    return None
