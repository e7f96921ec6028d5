"""Runs a plain function as a handler, in a process of its own that can be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from streams.errors import HistoryDiverged, LeaseLost, TransientError
from streams.process.daemon_thread import DaemonThread, NoThread, in_daemon_thread
from streams.worker.blocking.calls import made
from streams.worker.blocking.context import BlockingContext, view_of
from streams.worker.blocking.messages import Asked, Perform, Raised, Returned, Task

if TYPE_CHECKING:
    from streams.worker.handler.context import Context

_SECRETS = "TIDEGATE_"
"""What the names of the worker's own settings begin with: keys and tokens are among them."""


class InProcess:
    """A handler that calls a plain function of a module in a process.

    A process serves one run after the other. One whose run is stopped, or that ends by itself, is
    killed with all that it has started, and another takes its place.
    """

    def __init__(
        self, function: Callable[[BlockingContext[Any]], Any], memory_mb: int | None
    ) -> None:
        self._module, self._function = function.__module__, function.__qualname__
        self._most_bytes = None if memory_mb is None else memory_mb * 1024 * 1024
        self._idle: list[_Process] = []

    async def __call__(self, ctx: Context[Any]) -> Any:
        task = Task(self._module, self._function, view_of(ctx), self._most_bytes)
        process = self._idle.pop() if self._idle else await _in_thread(_Process)
        try:
            end = await _converse(process, ctx, task)
        except BaseException:
            process.kill()
            raise
        self._idle.append(process)
        if isinstance(end, Raised):
            raise end.error()
        return end.value


async def _converse(process: _Process, ctx: Context[Any], task: Task) -> Returned | Raised:
    """Send a task, make the calls that the process asks for, and return its end."""
    told: Asked | Returned | Raised = await _exchanged(process, task)
    while isinstance(told, Asked):
        told = await _exchanged(process, await _answer(process, ctx, told))
    return told


async def _answer(process: _Process, ctx: Context[Any], asked: Asked) -> Returned | Raised:
    async def perform(*args: Any, **kwargs: Any) -> Any:
        told = await _exchanged(process, Perform(args, kwargs))
        if isinstance(told, Raised):
            raise told.error()
        return told.value

    args = (asked.args[0], perform, *asked.args[1:]) if asked.has_function else asked.args
    try:
        return Returned(await made(ctx, asked.name, args, asked.kwargs))
    except (LeaseLost, HistoryDiverged):
        raise  # what ends the run does not go on in the process
    except Exception as error:
        return Raised.of(error)


async def _exchanged(process: _Process, message: object) -> Any:
    return await _in_thread(lambda: process.exchange(message))


async def _in_thread(call: Callable[[], Any]) -> Any:
    try:
        return await in_daemon_thread(call)
    except NoThread as error:
        raise TransientError(str(error)) from error


class _Process:
    """A child process, in a group of its own. Its methods block."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        life, self._life = os.pipe()
        environment = {n: v for n, v in os.environ.items() if not n.startswith(_SECRETS)}
        module = "streams.worker.blocking.child"
        self._popen = subprocess.Popen(  # noqa: S603  our own interpreter and module
            [sys.executable, "-m", module, str(theirs.fileno()), str(life)],
            pass_fds=(theirs.fileno(), life),
            stdin=subprocess.DEVNULL,
            env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        theirs.close()
        os.close(life)
        self._connection = Connection(ours.detach())
        self._connection.send(sys.path)

    def exchange(self, message: object) -> Any:
        """Send a message and return the answer.

        Raises:
            ProcessEnded: there is none, because the process has ended.
        """
        try:
            self._connection.send(message)
            while not self._connection.poll(0.2):
                if self._popen.poll() is not None:
                    raise EOFError
            return self._connection.recv()
        except (EOFError, OSError) as error:
            raise ProcessEnded(_how_it_ended(self._popen)) from error

    def kill(self) -> None:
        """End it and all that it has started, unless that has left its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._connection.close()
        os.close(self._life)
        DaemonThread("reap", self._popen.wait).start()


class ProcessEnded(Exception):
    """The process of a handler ended in the middle of its run: the message says how."""


def _how_it_ended(popen: subprocess.Popen[bytes]) -> str:
    try:
        code = popen.wait(5)
    except subprocess.TimeoutExpired:
        return "the process of the handler closed its connection"
    if code < 0:
        name = signal.Signals(-code).name
        return f"the process of the handler was ended by {name}: out of memory, perhaps"
    return f"the process of the handler ended by itself with exit code {code}"
