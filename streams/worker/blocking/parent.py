"""Runs a plain function as a handler, in a process of its own that can be killed."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from streams.errors import HistoryDiverged, LeaseLost, TransientError
from streams.process.daemon_thread import NoThread, in_daemon_thread
from streams.worker.blocking.calls import made
from streams.worker.blocking.context import BlockingContext, view_of
from streams.worker.blocking.messages import Asked, Perform, Raised, Returned, Task
from streams.worker.blocking.process import Process

if TYPE_CHECKING:
    from streams.worker.handler.context import Context

T = TypeVar("T")

_MOST_IDLE = os.cpu_count() or 1
"""So many processes are kept for later runs, of all handlers together, and one of each handler: no
more of them can compute at once."""
_IDLE: dict[Process, list[Process]] = {}
"""All that are kept, those that are idle for longest first, each with those of its handler."""


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
        self._idle: list[Process] = []
        # At the worker's own end they end by themselves.
        weakref.finalize(self, _kill_all, self._idle, os.getpid()).atexit = False

    async def __call__(self, ctx: Context[Any]) -> Any:
        task = Task(self._module, self._function, view_of(ctx), self._most_bytes)
        process = self._kept()
        if process is None:
            process = await _in_thread(Process, Process.kill)
        try:
            end = await _converse(process, ctx, task)
        except BaseException:
            process.kill()
            raise
        if isinstance(end, Raised):
            # Nobody knows what another error leaves behind: memory that is full, for example.
            self._keep(process) if end.is_ours else process.kill()
            raise end.error()
        self._keep(process)
        return end.value

    def _kept(self) -> Process | None:
        while self._idle:
            process = self._idle.pop()
            _IDLE.pop(process, None)
            if process.is_quiet():
                return process
            process.kill()
        return None

    def _keep(self, process: Process) -> None:
        self._idle.append(process)
        _IDLE[process] = self._idle
        spare = [each for each, its in _IDLE.items() if len(its) > 1]
        for each in spare[: max(0, len(_IDLE) - _MOST_IDLE)]:
            its = _IDLE[each]
            if len(its) > 1:
                del _IDLE[each]
                its.remove(each)
                each.kill()


def _kill_all(processes: list[Process], owner: int) -> None:
    for process in processes:
        _IDLE.pop(process, None)
        if os.getpid() == owner:  # and not a fork of the worker
            process.kill()


async def _converse(process: Process, ctx: Context[Any], said: Task | Perform) -> Returned | Raised:
    """Send a message, make the calls that the process asks for meanwhile, and return its end."""
    told: Asked | Returned | Raised = await _in_thread(lambda: process.exchange(said))
    while isinstance(told, Asked):
        # It has begun, so no error may say that nothing was done.
        answer = partial(process.exchange, await _answer(process, ctx, told))
        told = await in_daemon_thread(answer)
    return told


async def _answer(process: Process, ctx: Context[Any], asked: Asked) -> Returned | Raised:
    async def perform(*args: Any, **kwargs: Any) -> Any:
        told = await _converse(process, ctx, Perform(args, kwargs))
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


async def _in_thread(call: Callable[[], T], late: Callable[[T], object] | None = None) -> T:
    try:
        return await in_daemon_thread(call, late)
    except NoThread as error:
        raise TransientError(str(error)) from error
