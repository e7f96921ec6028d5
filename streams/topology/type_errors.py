"""Mismatches that pydantic finds in a file's keys and types, in the file's own terms."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from streams.topology.declared import Declared
from streams.topology.file_format import TopologyShape
from streams.topology.problems import near
from streams.topology.yaml_tree import KeyPath, Node

_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "tuple_type": "a list",
    "dataclass_type": "a mapping",
    "string_too_short": "text that is not empty",
    "too_short": "at least one item",
    "string_pattern_mismatch": "letters, digits, '.', '_' and '-'",
}
_KINDS = (
    (bool, "a truth value"),
    (int, "the number"),
    (float, "the number"),
    (str, "the text"),
    (dict, "a mapping"),
    (tuple, "a list"),
)


def told(error: ValidationError, merged: Node) -> list[str]:
    """One message for each mismatch, at its line."""
    return [_message(detail, merged) for detail in error.errors()]


def offending(error: ValidationError) -> list[KeyPath]:
    """The places of the mismatches; for a missing key, the mapping that lacks it."""
    return [d["loc"][:-1] if d["type"] == "missing" else d["loc"] for d in error.errors()]


def doubtful(error: ValidationError) -> list[KeyPath]:
    """Mappings that the rules cannot judge: an unknown key may be meant for any key beside it."""
    whole = ("missing", "unexpected_keyword_argument")
    return [d["loc"][:-1] if d["type"] in whole else d["loc"] for d in error.errors()]


def _message(detail: ErrorDetails, merged: Node) -> str:
    loc = detail["loc"]
    if detail["type"] == "missing":
        parent = merged.nearest(loc[:-1]).place
        return parent.child(loc[-1], parent.line).problem("is missing; add it")
    place = merged.nearest(loc).place
    if detail["type"] == "unexpected_keyword_argument":
        known = list(get_type_hints(_declared_at(loc[:-1])))
        hint = near(str(loc[-1]), known)
        return place.problem(f"unknown key{hint}; known here: {', '.join(known)}")
    return place.problem(f"{_found(detail['input'])} stands here; write {_wanted(detail)}")


def _wanted(detail: ErrorDetails) -> str:
    context: dict[str, Any] = detail.get("ctx", {})
    match detail["type"]:
        case "literal_error":
            return f"one of {context['expected']}"
        case "greater_than":
            return f"a number above {context['gt']:g}"
        case "greater_than_equal":
            return f"a whole number of at least {context['ge']}"
        case "less_than":
            return f"a number below {context['lt']:,}"
        case "less_than_equal":
            return f"a number of at most {context['le']:,}"
        case kind:  # an `error` was raised by a reader of our own
            said = detail["msg"].removeprefix("Input should be ")
            return str(context.get("error") or _WANTED.get(kind) or said)


def _found(value: Any) -> str:
    if value is None:
        return "nothing"
    kind = next((words for type_, words in _KINDS if isinstance(value, type_)), "something else")
    shown = isinstance(value, int | float | str) and not isinstance(value, bool)
    return f"{kind} {value!r}" if shown else kind


def _declared_at(loc: KeyPath) -> type[Declared]:
    """What the mapping at a location declares; indexes into lists do not count."""
    shape: type[Declared] = TopologyShape
    for key in loc:
        if isinstance(key, str):
            shape = _declared_in(get_type_hints(shape)[key]) or shape
    return shape


def _declared_in(hint: Any) -> type[Declared] | None:
    if isinstance(hint, type) and issubclass(hint, Declared):
        return hint
    return next((found for part in get_args(hint) if (found := _declared_in(part))), None)
