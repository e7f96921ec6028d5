"""JMESPath (https://jmespath.org/specification.html), compiled to functions.

Presets and most mappings only name fields. Walking such a path directly costs a tenth of the
interpreter's time for each event; the interpreter evaluates all other expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

LONGEST_EXPRESSION = 1_000
"""Far more than any needs; a longer one can be nested too deep for an ingress to parse."""

Path = Callable[[Any], Any]


def compile_path(expression: str) -> Path:
    """A function from a document to the expression's value there, or None without a value.

    The returned function raises nothing. It returns None also if a function of the expression
    meets a value that it does not take.

    Raises:
        jmespath.exceptions.JMESPathError: `expression` is no valid expression.
    """
    parsed = jmespath.compile(expression)
    direct = _direct(parsed.parsed)
    if direct is not None:
        return direct

    def interpreted(document: Any) -> Any:
        try:
            return parsed.search(document)
        except Exception:  # the expression's functions may raise anything
            return None

    return interpreted


def expression_fault(expression: str) -> str | None:
    """What is wrong with an expression that a person has written, or None."""
    if len(expression) > LONGEST_EXPRESSION:
        return f"has more than {LONGEST_EXPRESSION:,} characters"
    try:
        jmespath.compile(expression)
    except RecursionError:
        return "is nested too deep"
    except JMESPathError as error:
        return f"{expression!r} is no JMESPath: {str(error).splitlines()[0]}"
    return None


def _direct(node: Any) -> Path | None:
    if node["type"] == "field":
        return _field(node["value"])
    if node["type"] == "literal":
        return _literal(node["value"])
    if node["type"] not in _COMBINED:
        return None
    children = [_direct(child) for child in node["children"]]
    known = [child for child in children if child is not None]
    return _COMBINED[node["type"]](known) if len(known) == len(children) else None


def _field(name: str) -> Path:
    return lambda document: document.get(name) if type(document) is dict else None


def _literal(value: Any) -> Path:
    return lambda document: value


def _chain(steps: list[Path]) -> Path:
    def walk(document: Any) -> Any:
        for step in steps:
            document = step(document)
        return document

    return walk


def _first(choices: list[Path], *, true: bool) -> Path:
    def choose(document: Any) -> Any:
        value = None
        for choice in choices:
            value = choice(document)
            if _is_true(value) is true:
                return value
        return value

    return choose


def _is_true(value: Any) -> bool:
    return bool(value) or (value == 0 and value is not False)  # every number is true, even 0


def _select(parts: list[Path]) -> Path:
    return lambda document: None if document is None else [part(document) for part in parts]


_COMBINED: dict[str, Callable[[list[Path]], Path]] = {
    "subexpression": _chain,
    "or_expression": partial(_first, true=True),
    "and_expression": partial(_first, true=False),
    "multi_select_list": _select,
}
