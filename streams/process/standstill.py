"""Ends a process that stands still because something that it calls never returns."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from streams.process.daemon_thread import DaemonThread

log = structlog.get_logger(__name__)

PATIENCE_SECONDS = 300.0
"""Kafka gives up a member of a group that does not poll for so long (`max.poll.interval.ms`)."""

_TICK_SECONDS = 1.0
_TELLING_SECONDS = 5.0
"""How long the log may keep the process from its end."""


class Standstill:
    """Watches a loop from a thread of its own.

    Closing a client whose broker died may wait for ever (librdkafka#4674 and #5476): then only
    another process can go on with the work. This counts how often it woke up since the last turn,
    so the time in which the whole process is stopped or suspended does not count.
    """

    def __init__(
        self,
        patience: float = PATIENCE_SECONDS,
        exit_process: Callable[[int], object] = os._exit,
    ) -> None:
        self._patience = patience
        self._exit = exit_process
        self._turns = 0
        self._seen = 0
        self._ticks = 0
        self._watched = 0

    def turn(self) -> None:
        """Call this in each turn of the loop."""
        self._turns += 1

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the calling thread, which turns within."""
        self._watched, self._ticks = threading.get_ident(), 0
        thread = DaemonThread("standstill", lambda: self._watch(thread.stopping))
        thread.start()
        try:
            yield
        finally:
            thread.stop()

    def tick(self) -> None:
        """Count a second; end the process with EX_SOFTWARE if there was no turn for too long."""
        self._ticks = self._ticks + 1 if self._seen == self._turns else 0
        self._seen = self._turns
        if self._ticks * _TICK_SECONDS < self._patience:
            return
        try:
            telling = DaemonThread("standstill's last words", self._tell)  # the log may hang, too
            telling.start()
            telling.stop(_TELLING_SECONDS)
        finally:
            self._exit(os.EX_SOFTWARE)

    def _tell(self) -> None:
        frame = sys._current_frames().get(self._watched)
        log.error(
            "the process stands still: exiting",
            seconds=self._ticks * _TICK_SECONDS,
            stack="".join(traceback.format_stack(frame)) if frame else "gone",
        )

    def _watch(self, stopping: threading.Event) -> None:
        while not stopping.wait(_TICK_SECONDS):
            self.tick()
