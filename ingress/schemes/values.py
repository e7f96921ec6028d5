"""The normalized fields that are made of a document's values, or None where a value is unusable."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from ingress.formats.timestamps import parse_timestamp

_MAX_TEXT, _MAX_KEY = 512, 512
_MAX_KEY_DEPTH = 8


def name_of(value: Any) -> str:
    """An event type; several parts are joined by dots. It is empty without one."""
    parts = value if isinstance(value, list) else [value]
    known = [part for part in parts if isinstance(part, str | int) and not isinstance(part, bool)]
    return ".".join(map(str, known)) if isinstance(value, str | list) else ""


def key_of(value: Any, depth: int = 0) -> str | None:
    """A dedup key; several values make one only if none is missing or nested deeper than 8.

    A fraction makes no key: two different ids could be equal as doubles, and the second event would
    be dropped as a duplicate.
    """
    if isinstance(value, list):
        parts = [key_of(part, depth + 1) for part in value] if depth < _MAX_KEY_DEPTH else []
        return _short(orjson.dumps(parts).decode()) if parts and all(parts) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return _short(str(value))
    return _short(value) if isinstance(value, str) and value else None


def _short(key: str) -> str:
    if len(key) <= _MAX_KEY:
        return key
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def text_of(value: Any) -> str | None:
    """A text, a number or a truth value as a text of at most 512 characters."""
    if isinstance(value, str):
        return value[:_MAX_TEXT] or None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)[:_MAX_TEXT] if isinstance(value, int | float) else None


def milliseconds_of(value: Any) -> int | None:
    """A time in milliseconds since the epoch, UTC."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    seconds = parse_timestamp(str(value))
    return None if seconds is None else round(seconds * 1000)
