"""Checks, before an effect is claimed, that its function can be called with its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from streams.errors import PermanentError

_TRACE = "traceparent"


def check_call(function: Callable[..., Any], arguments: Mapping[str, Any], what: str) -> bool:
    """Bind the call `function(idempotency_key=..., **arguments)` without making it.

    Use a wrapper's own signature, because it may add or remove arguments. A builtin without a
    signature passes. Returns whether the function has a parameter `traceparent`, which the handler
    leaves to the call.

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
        return False
    except TypeError as error:
        raise PermanentError(f"{what}: {name} is no function: pass one to call") from error
    try:
        takes_trace = _takes_trace(function, signature) and _TRACE not in arguments
        signature.bind(idempotency_key="", **arguments, **({_TRACE: ""} if takes_trace else {}))
    except TypeError as error:
        raise PermanentError(
            f"{what}: {name}{signature} cannot be called: {error}. It is called with "
            "idempotency_key= and the effect's own arguments by name; nothing was claimed"
        ) from error
    return takes_trace


def _takes_trace(function: Callable[..., Any], signature: inspect.Signature) -> bool:
    if isinstance(function, partial) and _TRACE in function.keywords:
        return False
    found = signature.parameters.get(_TRACE)
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return found is not None and found.kind in by_name
