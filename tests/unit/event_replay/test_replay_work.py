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
from streams.serde.replay_records import ReplayAsked, ReplayProgress, ReplaySpan
from streams.settings import Settings
from streams.topology.load import load

ASKED = ReplayAsked("why", None, None, (), None, None, None, (), "x", "batch", 1.0, b"d")
END = 6
WHOLE = Span(0, 0, END)
PAUSED = ReplayProgress("paused", (ReplaySpan(0, 0, 0, END),))
WAITING = Known("r1", ASKED, progress=PAUSED)
"""A replay that was asked for, and of which is fixed what it has to read."""
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


def begun(known: Known, now: Span = WHOLE) -> Work:
    arguments: Any = (Settings(), load(None), known, {0: now}, Standing(), Sink(), "me")
    return Work(*arguments)


@pytest.mark.parametrize("events", range(4))
def test_what_cannot_be_read_is_counted_once_wherever_the_replay_pauses(
    monkeypatch: pytest.MonkeyPatch, events: int
) -> None:
    monkeypatch.setattr(working, "Scan", PlayedScan)
    monkeypatch.setattr(working, "Pace", OneByOne)
    work = begun(WAITING)
    for _ in range(events):
        work.step()
    paused = work.save("paused")
    assert (paused.events, paused.unreadable) == (events, _before(paused))
    work = begun(replace(WAITING, progress=paused))
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

    monkeypatch.setattr(working, "Scan", NotedScan)
    begun(replace(WAITING, asked=replace(ASKED, until=until), asked_at=1_000))
    assert selected == [bound]


def test_what_is_purged_while_a_replay_waits_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "Scan", PlayedScan)
    monkeypatch.setattr(working, "Pace", OneByOne)
    work = begun(WAITING, Span(4, 4, END + 10))
    assert [note.split(" were")[0] for note in work.progress.notes] == ["4 offsets of partition 0"]
    while work.step():
        pass
    assert (work.progress.events, work.progress.status) == (1, "done")
    assert work.progress.spans == (ReplaySpan(0, 0, END, END),)


class Silent(PlayedScan):
    """Gives nothing at first, as a partition without a leader does."""

    def batches(self) -> Iterator[Batch]:
        yield Batch((), {0: 0}, ())
        yield from super().batches()


def test_the_reason_why_it_stood_still_is_kept_until_events_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(working, "Scan", Silent)
    monkeypatch.setattr(working, "Pace", OneByOne)
    monkeypatch.setattr(working, "_SAVED_EVERY_SECONDS", 0)
    work = begun(replace(WAITING, progress=replace(PAUSED, error="no leader")))
    shown = []
    for _ in range(3):
        work.step()
        shown.append((work.moved, work.saved.error))
    assert shown == [(False, "no leader"), (True, None), (True, None)]


@pytest.mark.parametrize("by_a_former_release", [False, True])
def test_a_misspelled_type_is_told_though_the_replay_waited_and_not_after_a_resumption(
    monkeypatch: pytest.MonkeyPatch, by_a_former_release: bool
) -> None:
    """After a resumption it has seen a part of the types alone.

    A former release did not note when it had begun a replay.
    """

    class Seeing(PlayedScan):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.progress = Progress(0, 0, oldest_at=1, types={"order.paid"})

    monkeypatch.setattr(working, "Scan", Seeing)
    monkeypatch.setattr(working, "Pace", OneByOne)
    misspelled = replace(WAITING, asked=replace(ASKED, types=("ordr.*",)))
    if by_a_former_release:
        misspelled = replace(
            misspelled, progress=replace(PAUSED, spans=(ReplaySpan(0, 0, 1, END),))
        )
    told = []
    for _ in range(2):
        work = begun(misspelled)
        misspelled = replace(misspelled, progress=work.save("paused"))
        while work.step():
            pass
        told.append(sum("no event has a type 'ordr.*'" in note for note in work.progress.notes))
    assert told == [0 if by_a_former_release else 1, 0]
