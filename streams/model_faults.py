"""What is wrong with JSON that does not fit a pydantic model, field by field and without values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

_PLAIN = {
    "extra_forbidden": "there is no such field",
    "missing": "must be given",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "string_type": "must be a text",
    "too_short": "must not be empty",
    "zoneinfo_str": "must be the name of a time zone",
}

_AT_LEAST_ONE = "at least 1 item"

Fault = tuple[str, str]
"""A field (its names and numbers, joined by dots) and what is wrong with it."""


def faults(error: ValidationError, whole: str) -> list[Fault]:
    """Every fault of a value; `whole` names the value itself. A value may be a secret: none is in.

    The text of an error that a validator of the application raises is its author's.
    """
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return [(".".join(map(str, each["loc"])) or whole, plain(each)) for each in found]


def plain(fault: Mapping[str, Any]) -> str:
    """What one of pydantic's errors means to the author of the JSON."""
    text: str = fault["msg"]
    if fault["type"] == "union_tag_invalid":  # pydantic shows what came
        return f"its tag must be one of {text.rpartition('expected tags: ')[2]}"
    if fault["type"] == "too_short" and _AT_LEAST_ONE not in text:
        return text
    return _PLAIN.get(fault["type"]) or text.removeprefix("Value error, ")
