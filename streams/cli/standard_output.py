"""Standard output of a command: it takes every character, and its failure is an error in one line.

A terminal or file may have an encoding without a character, such as ISO 8859-1. A full disk refuses
what is written, and a reader such as `head` may be gone.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streams.errors import TidegateError

READER_GONE = 128 + signal.SIGPIPE
"""The exit code of a program whose reader is gone, as a shell tells it."""


class OutputRefused(TidegateError):
    """Standard output cannot be written, for example because its disk is full."""


@contextmanager
def taken_over() -> Iterator[None]:
    """Replace `sys.stdout` for as long as a command runs: a failed write ends it.

    Raises:
        OutputRefused: it cannot be written.
        SystemExit: nobody reads it any more.
    """
    stream = sys.stdout
    if stream is not sys.__stdout__ or not isinstance(stream, io.TextIOWrapper):  # or it is closed
        yield
        return
    sys.stdout = ours = io.TextIOWrapper(
        io.BufferedWriter(_Output(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
    )
    try:
        yield
    finally:
        sys.stdout = stream
        ours.flush()


class _Output(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            self._discard_the_rest()
            sys.exit(READER_GONE)
        except OSError as error:
            self._discard_the_rest()
            raise OutputRefused(
                f"standard output cannot be written ({error.strerror}): make room, or write "
                "elsewhere"
            ) from None

    def _discard_the_rest(self) -> None:
        """Let what is left be written without an error, such as the flush at Python's end."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
