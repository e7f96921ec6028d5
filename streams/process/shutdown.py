"""When a process ends: on a signal, on an error that it cannot survive, or after a deadline."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import NoReturn


class ProcessEnd:
    """The end of a process that serves HTTP. It hears SIGTERM and SIGINT from the moment it is
    made; it belongs to one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reached: asyncio.Future[None] = self._loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._end)

    async def wait(self) -> None:
        """Return when the process is asked to end.

        Raises:
            Exception: the error after which a part of the process could not go on.
        """
        await self._reached

    def failed(self, error: Exception) -> None:
        """Report that a part of the process cannot go on; safe in threads."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end, error)

    def _end(self, error: Exception | None = None) -> None:
        if self._reached.done():
            return
        if error is None:
            self._reached.set_result(None)
        else:
            self._reached.set_exception(error)


def end_on_sigterm() -> None:
    """Let SIGTERM end a command, also as the first process of a container.

    Linux gives that one no default action: it would go on until it is killed.
    """
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def end_at_once(code: int = 0) -> NoReturn:
    """End the process, after its work is done or has failed, without the interpreter's own end.

    That destroys objects beneath threads of librdkafka, RocksDB and Python that still run: now and
    then such a process ended by SIGSEGV, or waited for ever for a client whose broker died
    (librdkafka#4519). What is registered with `atexit` is not called.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def end_within(seconds: float, code: int) -> None:
    """End the process with `code` if it has not ended by itself: when the interpreter ends, it
    joins a hanging thread for ever, unless the thread is a daemon."""
    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()
