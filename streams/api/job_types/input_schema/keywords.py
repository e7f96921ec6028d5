"""Keywords of JSON Schema as an input is checked by them: each error is at the field at fault.

They differ from the library's where that would name no field, would take more than linear time or
memory (its messages have the value and the list of what is allowed, for each fault), or would
refuse what the worker accepts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from datetime import date, datetime
from functools import lru_cache
from typing import Annotated, Any
from uuid import UUID

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from pydantic import StringConstraints, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError

MOST_VALUES = 10_000
"""How many values one check looks at, each as often as the schema leads to it, and faults it finds.

A schema that names itself in several branches can take exponential time, and each fault in a branch
is kept until the whole is checked: 10,000 values take up to a second and 15 MB.
"""
_MEMBERS_A_VALUE = 1_000
"""To compare a value with so many members of an `enum` takes about as long as to look at one."""
_left: ContextVar[int] = ContextVar("_left")
_plain = Draft202012Validator.VALIDATORS

Errors = Iterable[Any]


class Unchecked(Exception):
    """A check that was given up: the worker's decides."""


def begin() -> None:
    """Begin a check, which looks at `MOST_VALUES` values at most."""
    _left.set(MOST_VALUES)


def _spend(values: int) -> None:
    left = _left.get() - values
    if left < 0:
        raise Unchecked(f"it has more than {MOST_VALUES:,} values and faults")
    _left.set(left)


def _fault(message: str, *path: Any, context: Iterable[Any] = ()) -> ValidationError:
    """An error, which takes as much time and memory as a value."""
    _spend(1)
    return ValidationError(message, path=path, context=context)


def _type(validator: Any, types: Any, instance: Any, _: Any) -> Iterator[Any]:
    named = (types,) if isinstance(types, str) else types
    if not any(validator.is_type(instance, name) for name in named):
        yield _fault("")


def _enum(_: Any, allowed: Any, instance: Any, __: Any) -> Iterator[Any]:
    _spend(len(allowed) // _MEMBERS_A_VALUE)
    if isinstance(instance, str):
        fits = instance in allowed
    else:  # to Python, but not to JSON, 1 is true
        is_bool = isinstance(instance, bool)
        fits = any(each == instance and isinstance(each, bool) is is_bool for each in allowed)
    if not fits:
        yield _fault("")


def _any_of(validator: Any, branches: Any, instance: Any, _: Any) -> Iterator[Any]:
    found: list[Any] = []
    for index, branch in enumerate(branches):
        errors = list(validator.descend(instance, branch, schema_path=index))
        if not errors:
            return
        found += errors
    yield _fault("", context=found)


def _required(validator: Any, required: Any, instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for name in required:
            if name not in instance:
                yield _fault("must be given", name)


def _additional(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if "patternProperties" in schema:
        return
    if allowed is not False:
        _spend(len(instance) if validator.is_type(instance, "object") else 0)
        yield from _plain["additionalProperties"](validator, allowed, instance, schema)
    elif validator.is_type(instance, "object"):
        for name in sorted(instance.keys() - schema.get("properties", {}).keys()):
            yield _fault("there is no such field", name)


def _items(validator: Any, items: Any, instance: Any, schema: Any) -> Iterator[Any]:
    _spend(len(instance) if validator.is_type(instance, "array") else 0)
    yield from _plain["items"](validator, items, instance, schema)


def _one_of(validator: Any, branches: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """A union; where a field tells its types apart, only that type counts."""
    discriminator = schema.get("discriminator") or {}
    name, types = discriminator.get("propertyName"), discriminator.get("mapping")
    if not types or not validator.is_type(instance, "object"):
        yield from _any_of(validator, branches, instance, schema)
    elif name not in instance:
        yield _fault("must be given", name)
    elif (tag := _tag(instance[name])) not in types:
        yield _fault(f"must be one of {', '.join(sorted(types))}", name)
    else:
        yield from _reference(validator, types[tag], instance, schema)


def _tag(value: Any) -> str:
    """A value as the mapping of a union has it: numbers and booleans as the texts of their JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _multiple_of(validator: Any, divisor: Any, instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "number") and not _is_multiple(instance, divisor):
        yield _fault("")


def _is_multiple(value: float, divisor: float) -> bool:
    """Whether pydantic takes a number for a multiple: 0.07 is one of 0.01, whatever floats say."""
    if isinstance(value, int) and isinstance(divisor, int):
        return value % divisor == 0
    rest, threshold = float(value) % divisor, abs(float(value)) / 1e9
    return rest <= threshold or abs(rest - divisor) <= threshold


def _reference(validator: Any, target: Any, instance: Any, schema: Any) -> Errors:
    _spend(1)
    found: Errors = _plain["$ref"](validator, target, instance, schema) or ()
    return found


def _pattern(validator: Any, pattern: Any, instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _matches(pattern)(instance):
        yield _fault(f"must match {pattern}")


@lru_cache(maxsize=256)
def _matches(pattern: str) -> Callable[[str], bool]:
    """Pydantic's own regular expressions, which take linear time; others are the worker's."""
    try:
        adapter = TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    except (PydanticUserError, SchemaError):
        return lambda _: True
    return lambda text: bool(adapter.validator.isinstance_python(text))


InputValidator = extend(
    Draft202012Validator,
    {
        "type": _type,
        "enum": _enum,
        "anyOf": _any_of,
        "required": _required,
        "additionalProperties": _additional,
        "items": _items,
        "multipleOf": _multiple_of,
        "oneOf": _one_of,
        "$ref": _reference,
        "pattern": _pattern,
        "patternProperties": lambda *_: (),
        "uniqueItems": lambda *_: (),  # a set accepts what is twice in it
    },
)

FORMATS = FormatChecker(formats=())


def _format(name: str, read: Callable[[str], object]) -> None:
    def is_one(value: object) -> bool:
        return not isinstance(value, str) or bool(read(value)) or True

    FORMATS.checks(name, raises=ValueError)(is_one)


_format("date", date.fromisoformat)
_format("date-time", lambda text: datetime.fromisoformat(text.upper()))  # RFC 3339 has `z`, too
_format("uuid", UUID)
