"""Checks, before an effect is claimed, that its function can be called with its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from streams.errors import PermanentError


def check_call(function: Callable[..., Any], arguments: Mapping[str, Any], what: str) -> None:
    """Bind the call `function(idempotency_key=..., **arguments)` without making it.

    Use a wrapper's own signature, because it may add or remove arguments. A builtin without a
    signature passes.

    Raises:
        PermanentError: the arguments do not fit, or the function is a generator, whose call does
            nothing. The message names the function and the parameter.
    """
    name = getattr(function, "__qualname__", None) or repr(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise PermanentError(f"{what}: {name} is a generator: a call of it begins nothing")
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except ValueError:
        return
    except TypeError as error:
        raise PermanentError(f"{what}: {name} is no function: pass one to call") from error
    try:
        signature.bind(idempotency_key="", **arguments)
    except TypeError as error:
        raise PermanentError(
            f"{what}: {name}{signature} cannot be called: {error}. It is called with "
            "idempotency_key= and the effect's own arguments by name; nothing was claimed"
        ) from error
