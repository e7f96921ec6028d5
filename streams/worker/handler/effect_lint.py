"""Finds effects in a handler's source whose function does not take an `idempotency_key`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from streams.errors import ConfigError

_KEY = "idempotency_key"
_SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def check_effects(handler: Callable[..., Any], what: str) -> None:
    """Check the handler's own calls `ctx.effect("tool", name, ...)`.

    Refuse only a plain function of the handler's module that certainly takes no
    `idempotency_key`. The run checks every other call before it claims anything.

    Raises:
        ConfigError: a function takes no key; the message names it and the handler.
    """
    for name in _names(handler):
        function = handler.__globals__.get(name)
        if inspect.isfunction(function) and not _takes_key(function):
            raise ConfigError(
                f"{what}: ctx.effect calls {name}{inspect.signature(function)} with "
                f"{_KEY}=: give {name} a parameter of that name, and pass it on to the tool"
            )


def _names(handler: Callable[..., Any]) -> Iterator[str]:
    """Yield the global names that the handler passes to `effect` of its first parameter."""
    if not inspect.isfunction(handler) or hasattr(handler, "__wrapped__"):
        return
    code, definition = handler.__code__, _definition(handler)
    if definition is None or not code.co_argcount:
        return
    ctx, own = code.co_varnames[0], {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    for node in _own_nodes(definition):
        name = _effect(node, ctx)
        if name is not None and name not in own:
            yield name


def _definition(handler: Callable[..., Any]) -> ast.AST | None:
    """Parse the handler's definition; None if its source is missing or not a whole statement."""
    try:
        module = ast.parse(textwrap.dedent(inspect.getsource(handler)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    return module.body[0] if module.body else None


def _own_nodes(definition: ast.AST) -> Iterator[ast.AST]:
    """Skip inner functions and comprehensions, whose names may mean something else."""
    waiting = list(ast.iter_child_nodes(definition))
    while waiting:
        node = waiting.pop()
        if not isinstance(node, _SCOPES):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def _effect(node: ast.AST, ctx: str) -> str | None:
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=owner), attr="effect"),
            args=[_, ast.Name(id=name), *_],
        ) if owner == ctx:
            return name
    return None


def _takes_key(function: Callable[..., Any]) -> bool:
    """Look at a wrapper's own parameters: it may not pass the key on to the wrapped function."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters
    named = parameters.get(_KEY)
    if named is not None and named.kind is not inspect.Parameter.POSITIONAL_ONLY:
        return True
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
