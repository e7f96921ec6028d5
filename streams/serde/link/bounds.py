"""Numbers that a worker may send: those that every language and every record can hold.

JSON has numbers of any size, and Avro has none of more than 64 bits. A larger one would fail where
it is written, long after its command was accepted, and would end the owner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_type_hints

MOST = 2**53
"""The largest number, also with a minus; the sum of two, and the seconds of one as milliseconds,
fit into 64 bits."""

Within = Callable[[Any], bool]
"""Whether all numbers in a value are within the bounds."""


@cache
def within(type_: Any) -> Within | None:
    """Return the test for values of a type; None if there are no numbers in them."""
    if type_ in (int, float):
        return _of_number
    if is_dataclass(type_):
        return _of_fields(type_)
    args = [each for each in get_args(type_) if each not in (NoneType, Ellipsis)]
    tests = [test for each in args if (test := within(each)) is not None]
    if not tests:
        return None
    if len(args) > 1:
        raise TypeError(f"no test of numbers for {type_}")
    (test,) = tests
    several = type_.__origin__ in (tuple, list) if hasattr(type_, "__origin__") else False
    return _of_each(test) if several else _of_optional(test)


def _of_number(value: float) -> bool:
    return -MOST <= value <= MOST


def _of_fields(type_: Any) -> Within | None:
    types = get_type_hints(type_)
    tests = [(each.name, test) for each in fields(type_) if (test := within(types[each.name]))]
    if not tests:
        return None
    return lambda value: all(test(getattr(value, name)) for name, test in tests)


def _of_each(test: Within) -> Within:
    return lambda value: all(map(test, value))


def _of_optional(test: Within) -> Within:
    return lambda value: value is None or test(value)
