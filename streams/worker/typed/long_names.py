"""Finds JSON whose names would take too much memory while it is checked.

Pydantic writes the names on the way to a value into each error: one long name above many wrong
values is copied for each of them.
"""

from __future__ import annotations

from typing import Any

_MOST_CHARS = 200_000_000
"""A body has up to a million values, so the names on the way to each may have 200 characters."""
_SHORT_CHARS = 40_000
"""A shorter text cannot have as many: half of it a name, a quarter as many values below that."""


def are_too_long(document: object, text: str) -> bool:
    """Whether the names above all values of a document have too many characters.

    `text` is the document's JSON.
    """
    if len(text) <= _SHORT_CHARS:
        return False
    found, waiting = 0, [(document, 0)]
    while waiting and found <= _MOST_CHARS:
        value, above = waiting.pop()
        match value:
            case dict():
                found += above * len(value) + sum(map(len, value))
                waiting += [(v, above + len(name)) for name, v in value.items() if _has_more(v)]
            case list():
                found += above * len(value)
                waiting += [(each, above) for each in value if _has_more(each)]
    return found > _MOST_CHARS


def _has_more(value: Any) -> bool:
    return isinstance(value, dict | list)
