"""The values of a log line, before it is written.

What is written as JSON has other signs beside its words, such as the `n` of a line's end, so that
a pattern does not find all that it finds in the value itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any


def opened(value: Any) -> Any:
    """The value as fields are looked for in it: dataclasses and models of pydantic are objects.

    Raises:
        RecursionError: it contains itself.
    """
    match value:
        case dict():
            return {name: opened(inner) for name, inner in value.items()}
        case list() | tuple():
            return [opened(each) for each in value]
        case type():
            return value
        case _ if is_dataclass(value):
            return {each.name: opened(getattr(value, each.name, None)) for each in fields(value)}
    return _dumped(value)


def cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """The value without secrets.

    One that is neither text nor JSON becomes its `repr` if that has a secret.

    Raises:
        RecursionError: it contains itself.
    """
    match value:
        case str():
            return clean(value)
        case bool() | None:
            return value
        case dict():
            return {name: cleaned(inner, clean) for name, inner in value.items()}
        case list():
            return [cleaned(each, clean) for each in value]
        case tuple():
            return tuple(cleaned(each, clean) for each in value)
    shown = _repr(value)
    found = clean(shown)
    return value if found == shown else found


def _dumped(value: Any) -> Any:
    """A model of pydantic as it dumps itself, if it can; else the value."""
    if not hasattr(type(value), "__pydantic_serializer__") or not hasattr(value, "model_dump"):
        return value
    try:
        return value.model_dump(mode="json")
    except Exception:
        return value


def _repr(value: object) -> str:
    try:
        return repr(value)
    except RecursionError:
        raise
    except Exception:
        return ""
