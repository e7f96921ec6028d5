"""What SIGTERM and Ctrl-C do to a demo: they end it in order, after the removal of its topics."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, so that nothing is left behind; main thread only."""
    # A shell starts background processes with an ignored SIGINT.
    with _handled({signal.SIGINT: signal.default_int_handler, signal.SIGTERM: _interrupt}):
        yield


@contextmanager
def once_more_to_interrupt(tell: Callable[[], None]) -> Iterator[None]:
    """Let the first SIGTERM or Ctrl-C call `tell` alone; the second raises KeyboardInterrupt."""
    asked: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt
        tell()

    with _handled({signal.SIGINT: handle, signal.SIGTERM: handle}):
        yield


@contextmanager
def _handled(handlers: dict[signal.Signals, Handler]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
