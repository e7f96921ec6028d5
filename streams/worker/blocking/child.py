"""The process of a CPU-bound handler: it runs one task after the other until its worker ends."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter
from typing import Any

from streams.errors import LeaseLost, PermanentError
from streams.worker.blocking.context import BlockingContext
from streams.worker.blocking.messages import (
    MOST_BYTES,
    Asked,
    CannotBePickled,
    Perform,
    Raised,
    Returned,
    Task,
    TooLargeToSend,
)
from streams.worker.handler.call_check import check_call

_WITH_FUNCTION = ("step", "effect")


def serve(connection: Connection, life: int) -> None:
    """Serve tasks. `life` is the read end of a pipe that the worker alone holds open."""
    threading.Thread(target=_end_with_worker, args=(life,), daemon=True).start()
    _be_ended_with_worker(life)
    us = os.getpid()
    while True:
        try:
            task: Task = connection.recv()
        except EOFError:
            return
        end = _end_of(task, connection)
        if os.getpid() != us:
            os._exit(int(isinstance(end, Raised)))  # a fork of the handler: it answers nobody
        connection.send_bytes(_packed(end))


def _end_of(task: Task, connection: Connection) -> Returned | Raised:
    calls = _Calls(connection)
    try:
        _limit(task.most_bytes)
        function = attrgetter(task.function)(import_module(task.module))
        return Returned(function(BlockingContext(task.view, calls)))
    except BaseException as error:
        # SystemExit and KeyboardInterrupt, too: a handler ends its run, and not its process.
        _limit(None)  # to say what it was may need memory
        return Raised.of(error)
    finally:
        _limit(None)
        calls.close()


def _packed(end: Returned | Raised) -> bytes:
    """An end as a message; a value that cannot be one is told as what is no JSON."""
    try:
        packed = bytes(ForkingPickler.dumps(end))
    except Exception:
        return bytes(ForkingPickler.dumps(Returned(CannotBePickled())))
    if len(packed) > MOST_BYTES:
        return bytes(ForkingPickler.dumps(Returned(TooLargeToSend())))
    return packed


def _asked(asked: Asked) -> bytes:
    """A call as a message.

    Raises:
        PermanentError: it cannot be one.
    """
    try:
        packed = bytes(ForkingPickler.dumps(asked))
    except Exception as error:
        raise PermanentError(
            f"ctx.{asked.name}: what it was given cannot be pickled ({error}): give plain values"
        ) from error
    if len(packed) > MOST_BYTES:
        raise PermanentError(
            f"ctx.{asked.name}: what it was given has {len(packed):,} bytes, more than "
            f"{MOST_BYTES:,}: store it elsewhere, and give where it lies"
        )
    return packed


class _Calls:
    """Has the worker make a call; the functions of steps and effects run here.

    One thread of one process makes all calls of a run, since they share a connection with those of
    later runs, which may be another tenant's.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._owner = (os.getpid(), threading.get_ident())
        self._is_over = False
        self._open = 0
        self._performing = 0

    def __call__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._check(name)
        function: Callable[..., Any] = _no_function
        if name in _WITH_FUNCTION:
            label, function, *rest = args
            args = (label, *rest)
        if name == "effect":
            own = {n: v for n, v in kwargs.items() if n not in ("key", "once_per", "model")}
            check_call(function, own, f"effect {args[0]}")
        asked = _asked(Asked(name, args, kwargs, name in _WITH_FUNCTION))
        self._open += 1
        self._connection.send_bytes(asked)
        while True:
            told = self._connection.recv()
            if isinstance(told, Perform):
                self._connection.send_bytes(self._performed(function, told))
                continue
            self._open -= 1
            if isinstance(told, Raised):
                raise told.error()
            return told.value

    def __reduce__(self) -> str:
        raise TypeError("ctx stays in its process: give it to the function by functools.partial")

    def close(self) -> None:
        """The run is over. One that left a call half said can be understood by nobody."""
        if self._owner[0] == os.getpid():
            self._is_over = True
            self._check_order()

    def _check(self, name: str) -> None:
        if (os.getpid(), threading.get_ident()) != self._owner:
            raise RuntimeError(f"ctx.{name} is called outside of the handler's own thread")
        if self._is_over:
            raise LeaseLost("the run of this context is over: it starts nothing more")
        self._check_order()

    def _check_order(self) -> None:
        if self._open != self._performing:
            print("a call of the context was interrupted, by a signal perhaps", file=sys.stderr)
            os._exit(os.EX_SOFTWARE)

    def _performed(self, function: Callable[..., Any], told: Perform) -> bytes:
        us = os.getpid()
        self._performing += 1
        try:
            end: Returned | Raised = Returned(function(*told.args, **told.kwargs))
        except BaseException as error:
            end = Raised.of(error)
        finally:
            self._performing -= 1
        if os.getpid() != us:
            os._exit(int(isinstance(end, Raised)))
        return _packed(end)


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


def _be_ended_with_worker(life: int) -> None:
    """Have Linux do the same, while native code keeps the interpreter from our own thread.

    A pipe whose other end is closed sends a signal to the group that owns it (fcntl(2), F_SETSIG).
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may not know it
            fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
