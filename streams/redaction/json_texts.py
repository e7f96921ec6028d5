"""The texts in a JSON value: strings, names of members, and numbers as they are written.

The ids and the size in a reference of an artifact are none: without them nobody finds or opens it
any more, and a pattern of long numbers or keys may match them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from streams.redaction.secrets import MARK

_OF_A_REFERENCE = {"artifact", "of", "name", "size", "content_type"}
_TEXTS_OF_A_REFERENCE = ("name", "content_type")
_ARTIFACT_ID = re.compile(r"art_[0-9a-v]{26}")
_JOB_ID = re.compile(r"job_[0-9a-v]{26}")


def texts(value: Any) -> Iterator[str]:
    """Yield each text, as often as it stands there."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as found:
                yield found
            case dict() as reference if _is_reference(reference):
                waiting.extend(reference[name] for name in _TEXTS_OF_A_REFERENCE)
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
        case dict() if _is_reference(value):
            its = {name: replaced(value[name], changed) for name in _TEXTS_OF_A_REFERENCE}
            return {**value, **its}
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


def _is_reference(value: Mapping[str, Any]) -> bool:
    """Whether it is what `ctx.save` returned: see `streams/artifacts/reference.py`."""
    return (
        value.keys() == _OF_A_REFERENCE
        and _is_id(value["artifact"], _ARTIFACT_ID)
        and _is_id(value["of"], _JOB_ID)
        and type(value["size"]) is int
    )


def _is_id(value: object, form: re.Pattern[str]) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None
