"""Reads what a handler's annotations say of its input and its result."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from streams.worker.blocking.context import BlockingContext
from streams.worker.handler.context import Context

UNREADABLE = (NameError, AttributeError, TypeError, SyntaxError)
"""What Python raises for an annotation that it cannot evaluate."""


class Annotations(NamedTuple):
    """The types of a handler's input and result; None for one that is not typed."""

    input: object | None
    result: object | None


def annotated(function: Callable[..., Any], names: Mapping[str, object]) -> Annotations:
    """What a handler's annotations say; `names` are the local ones where it is defined.

    The input is typed by `ctx: Context[T]` or `ctx: BlockingContext[T]`. The result is typed if its
    annotation has a pydantic model, a dataclass or a `TypedDict` in it: any other says nothing that
    JSON does not say.

    Raises:
        NameError, AttributeError, TypeError, SyntaxError: one of them cannot be evaluated.
    """
    signature = inspect.signature(function)
    ctx = next((each.annotation for each in signature.parameters.values()), None)
    evaluated = partial(_evaluated, scope=_globals(function), names=names)
    result = evaluated(signature.return_annotation)
    alias_of = getattr(result, "__value__", result)  # of `type Name = ...`
    return Annotations(_of_context(evaluated(ctx)), result if _has_model(alias_of) else None)


def says_input(function: Callable[..., Any]) -> bool:
    """Whether the annotation of the context names a type of the input, known or not."""
    ctx = next(iter(inspect.signature(function).parameters.values()), None)
    return ctx is not None and "[" in str(ctx.annotation)


def _evaluated(annotation: object, *, scope: dict[str, Any], names: Mapping[str, object]) -> object:
    def carrier() -> None: ...

    carrier.__annotations__ = {"it": Any if annotation is inspect.Signature.empty else annotation}
    return get_type_hints(carrier, scope, dict(names), include_extras=True)["it"]


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    """The names of the module that defines a function, below all its decorators."""
    while isinstance(function, partial):
        function = function.func
    found: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
    return found


def _of_context(annotation: object) -> object | None:
    if get_origin(annotation) not in (Context, BlockingContext):
        return None
    (found,) = get_args(annotation)
    return None if found is Any or isinstance(found, TypeVar) else found


def _has_model(annotation: Any) -> bool:
    return _is_model(annotation) or any(map(_has_model, get_args(annotation)))


def _is_model(annotation: Any) -> bool:
    if not isinstance(annotation, type):
        return False
    # `typing.is_typeddict` does not know those of typing_extensions.
    return (
        is_dataclass(annotation)
        or hasattr(annotation, "__required_keys__")
        or hasattr(annotation, "__pydantic_complete__")
    )


def local_names() -> dict[str, object]:
    """The local names where the caller of the caller stands; none at the top of a module."""
    frame = sys._getframe(2)
    return {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
