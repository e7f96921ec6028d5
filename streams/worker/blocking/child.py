"""The process of a CPU-bound handler: it runs one task after the other until its worker ends."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from operator import attrgetter
from typing import Any

from streams.worker.blocking.context import BlockingContext
from streams.worker.blocking.messages import Asked, Perform, Raised, Returned, Task
from streams.worker.handler.call_check import check_call

_WITH_FUNCTION = ("step", "effect")


def main(connection: Connection, life: int) -> None:
    """Serve tasks. `life` is the read end of a pipe that the worker alone holds open."""
    threading.Thread(target=_end_with_worker, args=(life,), daemon=True).start()
    sys.path[:] = connection.recv()
    while True:
        try:
            task: Task = connection.recv()
        except EOFError:
            return
        connection.send(_end_of(task, connection))


def _end_of(task: Task, connection: Connection) -> Returned | Raised:
    try:
        _limit(task.most_bytes)
        function = attrgetter(task.function)(import_module(task.module))
        return Returned(function(BlockingContext(task.view, _Calls(connection))))
    except BaseException as error:
        # SystemExit and KeyboardInterrupt, too: a handler ends its run, and not its process.
        return Raised.of(error)
    finally:
        _limit(None)


class _Calls:
    """Has the worker make a call; the functions of steps and effects run here."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __call__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function: Callable[..., Any] = _no_function
        if name in _WITH_FUNCTION:
            label, function, *rest = args
            args = (label, *rest)
        if name == "effect":
            own = {n: v for n, v in kwargs.items() if n not in ("key", "once_per", "model")}
            check_call(function, own, f"effect {args[0]}")
        self._connection.send(Asked(name, args, kwargs, name in _WITH_FUNCTION))
        while True:
            told = self._connection.recv()
            if isinstance(told, Returned):
                return told.value
            if isinstance(told, Raised):
                raise told.error()
            self._connection.send(_performed(function, told))


def _performed(function: Callable[..., Any], told: Perform) -> Returned | Raised:
    try:
        return Returned(function(*told.args, **told.kwargs))
    except BaseException as error:
        return Raised.of(error)


def _no_function(*_: Any, **__: Any) -> None:
    """Stands for the function of a call that has none."""


def _limit(most_bytes: int | None) -> None:
    """Bound the address space; None for as much as the process began with."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = hard if most_bytes is None else most_bytes
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _end_with_worker(life: int) -> None:
    """End this process and all that it started, once the worker is gone."""
    os.read(life, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), int(sys.argv[2]))
