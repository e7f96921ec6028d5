"""Lets the bench's calls be made from an async test, too."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def beside_loop(function: Callable[P, T]) -> Callable[P, T]:
    """Make each call in a thread of its own where an event loop runs in this one.

    The bench runs a loop itself, and a thread can run one at a time. The caller waits for the
    end, as it waits for any function.
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        if not _in_a_loop():
            return function(*args, **kwargs)
        context = contextvars.copy_context()
        with ThreadPoolExecutor(1, thread_name_prefix="bench") as thread:
            return thread.submit(lambda: context.run(function, *args, **kwargs)).result()

    return called


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
