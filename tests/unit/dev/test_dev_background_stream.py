"""A terminal that takes nothing stops nobody; what it missed is counted."""

from __future__ import annotations

import io
import threading

import pytest
from support.conditions import eventually

from streams.dev.console import background_stream
from streams.dev.console.background_stream import BackgroundStream


class Stopped(io.StringIO):
    """Takes nothing until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released, self.asked = threading.Event(), threading.Event()

    def write(self, text: str) -> int:
        self.asked.set()
        assert self.released.wait(10)
        return super().write(text)


def test_nobody_waits_for_a_stopped_terminal_and_lines_left_out_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background_stream, "_MOST_WAITING", 2)
    terminal = Stopped()
    stream = BackgroundStream(terminal)
    stream.write("a\n")
    assert terminal.asked.wait(10)
    for text in ("b\n", "c\n", "d\n", "e\n"):
        stream.write(text)
    terminal.released.set()
    eventually(lambda: terminal.getvalue().endswith("c\n"), what="all is written")
    stream.finish(10)
    assert terminal.getvalue() == "a\n2 lines were left out here; the logs have them\nb\nc\n"


def test_a_reader_that_is_gone_ends_nothing() -> None:
    terminal = io.StringIO()
    terminal.close()
    stream = BackgroundStream(terminal)
    stream.write("a\n")
    stream.finish(10)
