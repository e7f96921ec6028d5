"""The header `traceparent` (W3C Trace Context) of records and requests.

Any writer of a topic and any sender of a request chooses its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from streams.serde.ids import new_traceparent

_LONGEST = 256
"""In bytes; a `traceparent` has 55 (W3C Trace Context, "traceparent Header")."""

_WELL_FORMED = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


def continued_trace(given: str | None) -> str:
    """The sender's `traceparent` if it is well-formed, otherwise a new root."""
    return given if given and is_traceparent(given) else new_traceparent()


def is_traceparent(text: str) -> bool:
    """Whether a text is a well-formed `traceparent`, which a request may carry as a header."""
    return _WELL_FORMED.fullmatch(text) is not None


def traceparent(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    """The trace to which a record belongs; None if it names none that could be valid."""
    for name, value in headers:
        if name == "traceparent" and value and value.isascii() and len(value) <= _LONGEST:
            return value.decode()
    return None
