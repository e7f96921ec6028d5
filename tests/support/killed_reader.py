"""A reader of events that is killed at each of its lines in turn.

    python -m support.killed_reader FOLDER      # prints how many lines it was killed at

Each reader that is killed is a fork. So this is a program of its own, with one thread: the fork of
a process with several may wait for ever for a lock that one of the others held.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from streams import SqliteSink
from streams.event_reader import consume as consuming
from streams.event_reader import handling, sinks
from streams.event_reader import reader as reading
from streams.event_reader.consume import consume
from streams.serde.codec import ENVELOPE
from streams.serde.records import Envelope
from streams.settings import load_settings
from support.operator_cluster import make_event
from support.played_consumer import PlayedConsumer

LOGS = [
    [ENVELOPE.encode(make_event(f"a{n}")) for n in range(4)],
    [ENVELOPE.encode(make_event(f"b{n}", "bolt", event_type="ticket")) for n in range(2)],
]
"""What is on the topic."""
ALL = sorted([*(f"evt_a{n}" for n in range(4)), *(f"evt_b{n}" for n in range(2))])


def fresh(path: Path) -> Path:
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE seen (event_id TEXT)")
    db.close()
    return path


def insert(event: Envelope, cursor: sqlite3.Cursor) -> None:
    cursor.execute("INSERT INTO seen VALUES (?)", (event.event_id,))


def read(path: Path, handle: Callable[..., object] = insert, **more: Any) -> int:
    return consume(handle, group="orders", into=SqliteSink(path), until_end=True, **more)


def seen(path: Path) -> list[str]:
    db = sqlite3.connect(path)
    try:
        return sorted(row[0] for row in db.execute("SELECT event_id FROM seen"))
    finally:
        db.close()


class Killer:
    """Counts the lines that readers run, and ends the process at one of them as SIGKILL does."""

    CODE = 7

    def __init__(self, at: int | None) -> None:
        self.lines, self._at = 0, at

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        read_by = (consuming, reading, handling, sinks)
        files = (*(module.__file__ for module in read_by), __file__)
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            if self.lines == self._at:
                os._exit(self.CODE)
            self.lines += 1
        return self.trace


def survived(folder: Path, line: int) -> None:
    """Kill a reader at its so many-th line, and let another one go on."""
    path = fresh(folder / "orders.db")
    child = os.fork()
    if child == 0:
        sys.settrace(Killer(line).trace)
        read(path)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == Killer.CODE, line
    read(path)
    assert seen(path) == ["evt_a0", "evt_a1", "evt_b0"], line


def lines_of_a_reader(folder: Path) -> int:
    """How many lines one runs that nobody kills."""
    counter, path = Killer(None), fresh(folder / "orders.db")
    sys.settrace(counter.trace)
    try:
        read(path)
    finally:
        sys.settrace(None)
    return counter.lines


if __name__ == "__main__":
    settings = load_settings()
    with (
        patch.object(reading, "Consumer", lambda _: PlayedConsumer([LOGS[0][:2], LOGS[1][:1]])),
        patch.object(consuming, "wait_for_broker", lambda *_, **__: None),
        # No kill can change the settings, and reading them takes most of a reader's time.
        patch.object(consuming, "load_settings", lambda **_: settings),
    ):
        lines = lines_of_a_reader(Path(sys.argv[1]))
        for line in range(lines):
            survived(Path(sys.argv[1]), line)
    print(lines)
