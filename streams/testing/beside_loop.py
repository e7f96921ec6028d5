"""Lets the bench's calls be made from an async test, too, and fail at the test's own line."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import ParamSpec, TypeVar

from streams.errors import ConfigError
from streams.testing.flow import Stuck
from streams.testing.refused import Refused, Unprovided

P = ParamSpec("P")
T = TypeVar("T")

_FOR_THE_TEST = (ConfigError, Refused, Stuck, Unprovided)
"""Errors whose messages say all: their frames are the bench's, which no test is mended by."""


def beside_loop(function: Callable[P, T]) -> Callable[P, T]:
    """Make each call in a thread of its own where an event loop runs in this one.

    The bench runs a loop itself, and a thread can run one at a time. The caller waits for the
    end, as it waits for any function. An error that is meant for the test has no frame of the
    bench, so pytest shows the test's line and the message.
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            if not _in_a_loop():
                return function(*args, **kwargs)
            context = contextvars.copy_context()
            with ThreadPoolExecutor(1, thread_name_prefix="bench") as thread:
                return thread.submit(lambda: context.run(function, *args, **kwargs)).result()
        except _FOR_THE_TEST as error:
            raise error.with_traceback(None) from error.__cause__

    return called


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
