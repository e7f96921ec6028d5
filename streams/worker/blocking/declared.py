"""How a handler runs, by how it is declared: as it is, in a thread, or in a process."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streams.errors import ConfigError

if TYPE_CHECKING:
    from streams.worker.job_types import JobFunction

_LEAST_MB = 64


def runs_as(
    function: Callable[..., Any], what: str, *, cpu: bool, memory_mb: int | None
) -> JobFunction:
    """The handler as a worker calls it.

    Raises:
        ConfigError: it cannot run so; the message begins with `what`.
    """
    _check_memory(what, cpu, memory_mb)
    if inspect.iscoroutinefunction(function):
        if cpu:
            raise ConfigError(f"{what}: {function!r} is async: with cpu=True, make it a plain def")
        return function
    if not callable(function) or inspect.isgeneratorfunction(function):
        raise ConfigError(f"{what}: {function!r} is no handler: make it a def or an `async def`")
    if cpu:
        return _in_process(function, what, memory_mb)
    from streams.worker.blocking.thread import InThread  # `import streams` is light

    return InThread(function)


def _in_process(function: Callable[..., Any], what: str, memory_mb: int | None) -> JobFunction:
    from streams.worker.blocking.parent import InProcess

    name = getattr(function, "__qualname__", "<")
    if "<" in name or not inspect.isfunction(function) or function.__module__ == "__main__":
        raise ConfigError(
            f"{what}: {function!r} is not found by its name in another process: with cpu=True, "
            "define it at the top of a module that can be imported"
        )
    return InProcess(function, memory_mb)


def _check_memory(what: str, cpu: bool, memory_mb: int | None) -> None:
    if memory_mb is None:
        return
    if not cpu:
        raise ConfigError(f"{what}: memory_mb bounds a process of its own: add cpu=True")
    if type(memory_mb) is not int or memory_mb < _LEAST_MB:
        raise ConfigError(f"{what}: memory_mb={memory_mb!r}: give a number from {_LEAST_MB} on")
