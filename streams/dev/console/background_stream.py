"""A text stream whose writers never wait.

A terminal takes no output while it is stopped (Ctrl-S, a pager, copy mode): a thread that writes to
it waits. If that were the thread that reads the stages' output, their pipes would fill up, and the
whole pipeline would stop.
"""

from __future__ import annotations

import contextlib
from queue import Full, Queue
from typing import TextIO

from streams.process.daemon_thread import DaemonThread

_MOST_WAITING = 10_000


class BackgroundStream:
    """Hands texts to `stream` in a thread; drops and counts those beyond 10,000 that wait."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._waiting: Queue[str | None] = Queue(_MOST_WAITING)
        self._dropped = 0
        self._thread = DaemonThread("console", self._run)
        self._thread.start()

    def write(self, text: str) -> None:
        """Take a text, to be written soon."""
        try:
            self._waiting.put_nowait(text)
        except Full:
            self._dropped += 1

    def flush(self) -> None:
        """Do nothing: each text is flushed once it is written."""

    def finish(self, seconds: float) -> None:
        """Wait until all is written, at most so long; nothing may be written afterwards."""
        with contextlib.suppress(Full):
            self._waiting.put_nowait(None)
            self._thread.stop(seconds)

    def _run(self) -> None:
        while (text := self._waiting.get()) is not None:
            dropped, self._dropped = self._dropped, 0
            left_out = (
                f"{dropped} lines were left out here; the logs have them\n" if dropped else ""
            )
            # The reader may be gone; the processes' logs are in files as well.
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(left_out + text)
                self._stream.flush()
