"""One replay at work: what it has counted wherever it ends and is begun again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.operator_cluster import make_event

from streams.event_reader.scan import Batch, Found, Progress
from streams.event_reader.selection import Selection
from streams.event_reader.span import Span
from streams.event_replay import work as working
from streams.event_replay.known import Known
from streams.event_replay.work import Work
from streams.serde.codec import ENVELOPE
from streams.serde.replay_records import ReplayAsked, ReplayProgress
from streams.settings import Settings
from streams.topology.load import load

ASKED = ReplayAsked("why", None, None, (), None, None, None, (), "x", "batch", 1.0, b"d")
END = 6
UNREADABLE = (1, 3, 5)
"""Offsets of the records that cannot be read; the others are events."""


class PlayedScan:
    """Gives everything that is left in one batch."""

    def __init__(self, _: Settings, spans: dict[int, Span], *__: Any) -> None:
        self.progress = Progress(0, 0)
        self._first = spans[0].first

    def batches(self) -> Iterator[Batch]:
        if self._first < END:
            offsets = range(self._first, END)
            found = (_found(n) for n in offsets if n not in UNREADABLE)
            poison = ((0, n) for n in offsets if n in UNREADABLE)
            yield Batch(tuple(found), {0: END}, tuple(poison))


def _found(offset: int) -> Found:
    event = make_event(f"k{offset}")
    return Found(0, offset, 1, event, ENVELOPE.encode(event), None)


class OneByOne:
    """Allows one job in each step."""

    def __init__(self, *_: object) -> None: ...

    def allowed(self, _: float) -> int:
        return 1

    def spend(self, _: int) -> None: ...


class Standing:
    def closed(self, _: str) -> None:
        return None

    def has_body(self, _: object) -> bool:
        return True


class Sink:
    def send(self, *_: object) -> None: ...

    def flush(self) -> None: ...


def begun(known: Known) -> Work:
    arguments: Any = (Settings(), load(None), None, known, Standing(), Sink(), "me")
    return Work(*arguments)


@pytest.mark.parametrize("events", range(4))
def test_what_cannot_be_read_is_counted_once_wherever_the_replay_pauses(
    monkeypatch: pytest.MonkeyPatch, events: int
) -> None:
    monkeypatch.setattr(working, "Scan", PlayedScan)
    monkeypatch.setattr(working, "asked_spans", lambda *_: {0: Span(0, 0, END)})
    monkeypatch.setattr(working, "Pace", OneByOne)
    known = Known("r1", ASKED)
    work = begun(known)
    for _ in range(events):
        work.step()
    paused = work.save("paused")
    assert (paused.events, paused.unreadable) == (events, _before(paused))
    work = begun(replace(known, progress=paused))
    while work.step():
        pass
    assert (work.progress.events, work.progress.unreadable) == (3, 3)


def _before(saved: ReplayProgress) -> int:
    return sum(offset < saved.spans[0].next for offset in UNREADABLE)


@pytest.mark.parametrize(
    ("until", "bound"), [(None, 1_000), (900, 900), (1_100, 1_000)], ids=["none", "past", "future"]
)
def test_events_that_came_after_it_was_asked_for_are_not_selected(
    monkeypatch: pytest.MonkeyPatch, until: int | None, bound: int
) -> None:
    """It may have waited: behind other replays, in a pause, or for an operator that was away."""
    selected: list[int | None] = []

    class NotedScan(PlayedScan):
        def __init__(self, _: Settings, spans: dict[int, Span], selection: Selection) -> None:
            super().__init__(_, spans)
            selected.append(selection.until)

    def noted_spans(*arguments: Any) -> dict[int, Span]:
        selected.append(arguments[-1].until)
        return {0: Span(0, 0, END)}

    monkeypatch.setattr(working, "Scan", NotedScan)
    monkeypatch.setattr(working, "asked_spans", noted_spans)
    begun(Known("r1", replace(ASKED, until=until), asked_at=1_000))
    assert selected == [bound, bound]
