"""From fastavro's data to frozen dataclasses, by one expression for each class.

The expression's text is generated and compiled once, as `dataclasses` does with `__init__`: a loop
over the fields would cost as much as fastavro's own work. `writing` does the reverse.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

Convert = Callable[[Any], Any]


def builder(cls: Any) -> Convert:
    """A function from a record's datum to an instance of its class."""
    scope: dict[str, Any] = {"cls": cls}
    items = (_built(h, f"datum[{n!r}]", scope) for n, h in get_type_hints(cls).items())
    return _function("datum", f"cls({', '.join(items)})", scope)


def has_variants(cls: Any) -> bool:
    """Whether any field, at any depth, is one of several records: readers need its name."""
    hints = [inner for hint in get_type_hints(cls).values() for inner in (hint, *get_args(hint))]
    return any(
        len(_options(hint)) > 1 or (is_dataclass(hint) and has_variants(hint)) for hint in hints
    )


def _built(hint: Any, datum: str, scope: dict[str, Any]) -> str:
    """The expression that turns the expression `datum` into a value; `scope` gets its names."""
    if is_dataclass(hint):
        return f"{_name(builder(hint), scope)}({datum})"
    if get_origin(hint) is tuple:
        return f"tuple([{_built(get_args(hint)[0], 'each', scope)} for each in {datum}])"
    options = _options(hint)
    if len(options) > 1:
        return f"{_name(_built_variant(options), scope)}({datum})"
    if options:
        return f"None if {datum} is None else {_built(options[0], datum, scope)}"
    return datum


def _built_variant(options: Sequence[Any]) -> Convert:
    variants = {_branch(option): builder(option) for option in options}
    return lambda named: variants[named[0]](named[1])


def _options(hint: Any) -> list[Any]:
    """The types of a union except None; empty if the hint is not a union."""
    if get_origin(hint) is not types.UnionType:
        return []
    return [option for option in get_args(hint) if option is not types.NoneType]


def _branch(option: Any) -> str:
    return f"tidegate.{option.__name__}"


def _name(function: Convert, scope: dict[str, Any]) -> str:
    name = f"convert{len(scope)}"
    scope[name] = function
    return name


def _function(argument: str, expression: str, scope: dict[str, Any]) -> Convert:
    # The text consists only of the names of our own classes' fields.
    compiled: Convert = eval(f"lambda {argument}: {expression}", scope)  # noqa: S307
    return compiled
