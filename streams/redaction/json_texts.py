"""The texts in a JSON value: strings, names of members, and numbers as they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streams.redaction.secrets import MARK


def texts(value: Any) -> Iterator[str]:
    """Yield each text, as often as it stands there."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as found:
                yield found
            case dict() as members:
                yield from members
                waiting.extend(members.values())
            case list() as items:
                waiting.extend(items)
            case bool() | None:
                pass
            case number:
                yield str(number)


def replaced(value: Any, changed: Mapping[str, str]) -> Any:
    """The value with other texts; a number whose text changes becomes a mark."""
    match value:
        case str():
            return changed.get(value, value)
        case dict():
            return _members(value, changed)
        case list():
            return [replaced(each, changed) for each in value]
        case bool() | None:
            return value
    return MARK if str(value) in changed else value


def _members(value: Mapping[str, Any], changed: Mapping[str, str]) -> dict[str, Any]:
    """The members; those whose names become equal stay apart."""
    found: dict[str, Any] = {}
    for name, inner in value.items():
        shown = changed.get(name, name)
        while shown in found:
            shown = f"{shown} {len(found)}"
        found[shown] = replaced(inner, changed)
    return found
