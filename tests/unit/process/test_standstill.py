"""A process whose loop stands still ends, says where, and is not taken for one that was stopped."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import structlog

from streams.process import standstill
from streams.process.standstill import Standstill

_ENOUGH = round(standstill.PATIENCE_SECONDS / standstill._TICK_SECONDS)


@pytest.fixture
def codes() -> list[int]:
    return []


@pytest.fixture
def watched(codes: list[int]) -> Iterator[Standstill]:
    found = Standstill(exit_process=codes.append)
    found.tick()
    with found.watched():
        yield found


def tick(watched: Standstill, times: int) -> None:
    for _ in range(times):
        watched.tick()


def test_a_loop_that_turns_goes_on_for_ever(watched: Standstill, codes: list[int]) -> None:
    for _ in range(3):
        watched.turn()
        tick(watched, _ENOUGH)
    assert codes == []


def test_a_loop_that_stands_still_ends_the_process(watched: Standstill, codes: list[int]) -> None:
    watched.turn()
    tick(watched, _ENOUGH)
    assert codes == []
    watched.tick()
    assert codes == [os.EX_SOFTWARE]


def test_its_log_line_names_the_call_that_does_not_return(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread ticks by itself: with a short second, it ends what hangs within the loop."""
    monkeypatch.setattr(standstill, "_TICK_SECONDS", 0.1)
    released = threading.Event()

    def a_call_that_hangs() -> None:
        assert released.wait(30), "nobody noticed"

    with structlog.testing.capture_logs() as lines:
        found = Standstill(0.3, lambda _: released.set())
        with found.watched():
            a_call_that_hangs()
    assert "a_call_that_hangs" in lines[0]["stack"]
    assert lines[0]["event"] == "the process stands still: exiting"


def test_each_watch_begins_anew(codes: list[int]) -> None:
    found = Standstill(exit_process=codes.append)
    for _ in range(2):
        with found.watched():
            tick(found, _ENOUGH - 1)
    assert codes == []


def test_a_log_that_cannot_be_written_keeps_nothing_from_its_end(
    watched: Standstill, codes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(standstill, "log", SimpleNamespace(error=refuse))
    watched.turn()
    tick(watched, _ENOUGH + 1)
    assert codes == [os.EX_SOFTWARE]


def test_a_process_that_can_start_no_thread_ends_nevertheless(
    watched: Standstill, codes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    watched.turn()
    tick(watched, _ENOUGH)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        watched.tick()
    assert codes == [os.EX_SOFTWARE]
