"""Single keys that a person presses while a view is on the terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Pressed = Callable[[float], str]
"""Waits so many seconds for keys; returns them, or an empty text if none was pressed."""

_MOST = 64


@contextmanager
def pressed_keys() -> Iterator[Pressed]:
    """Read keys as they are pressed, without showing them; Ctrl-C interrupts as before.

    If standard input is no terminal, nothing is read, and waiting is all that happens.
    """
    if not sys.stdin.isatty():
        yield _nothing
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield lambda seconds: _read(descriptor, seconds)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _nothing(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _read(descriptor: int, seconds: float) -> str:
    ready, _, _ = select.select([descriptor], [], [], seconds)
    return os.read(descriptor, _MOST).decode(errors="replace") if ready else ""
