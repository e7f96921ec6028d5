"""What stands in the place of a value: a mark, which no value of a handler can be taken for."""

from __future__ import annotations

from typing import Any

from streams import user_json

MARK = "$artifact"
"""The only key of what stands for a value; its value is the reference of the value's JSON."""
_ITSELF = "value"
_BEGINNING = user_json.write({MARK: ""})[:-3]


def marked_off(text: bytes) -> bytes:
    """The JSON of a value as it is kept: one that looks like a mark is put into one of its own.

    Otherwise a body from outside could name an artifact, and be taken for what lies there.
    """
    if not text.startswith(_BEGINNING) or user_json.read(text).keys() != {MARK}:
        return text
    return user_json.write({MARK: {_ITSELF: user_json.read(text)}})


def is_stand_in(kept: Any) -> bool:
    """Whether an artifact holds what is meant."""
    return _is_marked(kept) and not _is_itself(kept)


def meant(kept: Any) -> Any:
    """The value that `marked_off` was given."""
    return kept[MARK][_ITSELF] if _is_marked(kept) and _is_itself(kept) else kept


def _is_marked(kept: Any) -> bool:
    return isinstance(kept, dict) and kept.keys() == {MARK}


def _is_itself(kept: dict[str, Any]) -> bool:
    inner = kept[MARK]
    return isinstance(inner, dict) and inner.keys() == {_ITSELF}
