"""The JSON of users: values keep their meaning between the text and Python, or are refused.

orjson alone reads an integer beyond 64 bits as a fraction, and writes NaN and infinity as `null`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import orjson

_TO_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
_LONG_INTEGER = b"0" * 19
"""The shortest integer beyond 64 bits has 19 digits: -9223372036854775809."""
_SAID = {
    "Integer exceeds 64-bit range": "an integer has more than 64 bits: write it as a string",
    "Recursion limit reached": "it is nested too deep",
    "Dict key must be str": "a key is not a string",
    "str is not valid UTF-8: surrogates not allowed": "a string has a lone surrogate",
}
"""orjson's reasons, and ours."""


def read(text: str | bytes) -> Any:
    """The value of a JSON text (RFC 8259: UTF-8, no NaN); integers of any length stay exact.

    Of several members with one name, the last counts.

    Raises:
        json.JSONDecodeError: it is not JSON, has a lone surrogate or a number beyond a double, or
            is nested too deep.
    """
    value = orjson.loads(text)
    raw = text.encode() if isinstance(text, str) else text
    if _LONG_INTEGER not in raw.translate(_TO_ZERO):
        return value
    del value  # it would double the memory of the next reading
    try:
        return json.loads(raw.decode())
    except RecursionError:
        raise json.JSONDecodeError("it is nested too deep", "", 0) from None


def write(value: object, *, sort_keys: bool = False) -> bytes:
    """The JSON text of a value.

    Raises:
        TypeError: the value, or one in it, cannot be written without changing it: NaN, infinity,
            an integer beyond 64 bits, a lone surrogate, a key that is not a string, or no JSON.
    """
    text = unchecked(value, sort_keys=sort_keys)
    check(value, text)
    return text


def unchecked(value: object, *, sort_keys: bool = False) -> bytes:
    """What `write` gives for a value that `check` lets pass.

    Raises:
        TypeError: the value, or one in it, cannot be written.
    """
    try:
        # orjson sorts the members of dicts alone, so dataclasses become dicts.
        return orjson.dumps(value, *((_as_dict, _SORTED) if sort_keys else (_of_model,)))
    except TypeError as error:
        raise TypeError(_SAID.get(str(error), str(error))) from error


def check(value: object, text: bytes) -> None:
    """Check that a value is what `unchecked` has written; this takes seconds for a large one.

    Raises:
        TypeError: it has NaN or infinity, which are `null` in the text.
    """
    if b"null" in text and not all(map(math.isfinite, _floats(value))):
        raise TypeError("it has a number that is NaN or infinite")


def digest(value: object) -> bytes:
    """SHA-256 of a value's canonical JSON: equal exactly for equal values.

    Raises:
        TypeError: as `write`.
    """
    return hashlib.sha256(write(value, sort_keys=True)).digest()


def _floats(value: object) -> Iterator[float]:
    """Yield every fraction in a value that orjson has written, which therefore has no cycle."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case float() as found:
                yield found
            case dict() as members:
                waiting.extend(dict.values(members))
            case list() | tuple() as items:
                waiting.extend(items)
            case Enum() as member:
                waiting.append(member.value)
            case found if _is_model(found):
                waiting.append(_of_model(found))
            case found if is_dataclass(found):
                waiting.extend(_attributes(found))


def _attributes(found: Any) -> Iterator[object]:
    """Yield the attributes of a dataclass that orjson writes."""
    return (getattr(found, name) for name in _names(found))


def _as_dict(found: Any) -> dict[str, Any]:
    """The object that is written for a dataclass or a model of pydantic.

    Raises:
        TypeError: it is neither.
    """
    if not is_dataclass(found) or isinstance(found, type):
        return _of_model(found)
    return {name: getattr(found, name) for name in _names(found)}


def _of_model(found: Any) -> dict[str, Any]:
    """The JSON that a model of pydantic makes of itself.

    Raises:
        TypeError: it is none.
        ValueError: it cannot.
    """
    if not _is_model(found):
        raise TypeError
    made: dict[str, Any] = found.model_dump(mode="json", by_alias=True)
    return made


def _is_model(found: object) -> bool:
    return hasattr(type(found), "__pydantic_serializer__") and hasattr(found, "model_dump")


def _names(found: Any) -> list[str]:
    """The names of the attributes of a dataclass that orjson writes: the public ones it has."""
    slotted = "__slots__" in vars(type(found))
    names = [each.name for each in fields(found)] if slotted else vars(found)
    return [name for name in names if not name.startswith("_")]
