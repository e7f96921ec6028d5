"""One attempt at a replay: what it writes and asks for, and from where the next one goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from threading import Event, Thread
from typing import Any, cast

import pytest
from support.conditions import eventually
from support.operator_cluster import make_event

from streams.errors import KafkaUnavailable
from streams.event_reader.scan import Batch, Found, Progress
from streams.event_reader.span import Span
from streams.event_replay import replaying
from streams.event_replay.eligibility import Eligibility
from streams.event_replay.replay import TOPIC, Replay
from streams.event_replay.replaying import Process, Replaying
from streams.serde.codec import ENVELOPE, REPLAY
from streams.serde.replay_records import ReplayAsked, ReplayProgress, ReplaySpan, ReplayStopped
from streams.settings import Settings
from streams.topology.load import load

ASKED = ReplayAsked("why", None, None, (), None, None, None, (), "x", "batch", 10_000.0, b"d")
END = 6
WAITING = Replay("r1", ASKED, progress=ReplayProgress("paused", (ReplaySpan(0, 0, 0, END),)))
"""A replay that was asked for, and of which is fixed what it has to read."""
UNREADABLE = (1, 3, 5)
"""Offsets of the records that cannot be read; the others are events."""


@dataclass
class World:
    """The topics as an attempt sees them; `on_job` is called for each job that is asked for."""

    spans: dict[int, Span] = field(default_factory=lambda: {0: Span(0, 0, END)})
    written: list[ReplayProgress] = field(default_factory=list)
    jobs: int = 0
    on_job: Callable[[], object] = lambda: None
    broker_ms: int = 0
    asked: int = 0
    fault: Exception | None = None
    silent: Event | None = None
    unacknowledged: int = 0
    closed_after: list[str | None] = field(default_factory=list)
    types: set[str] = field(default_factory=set)

    def spans_now(self, *_: object) -> dict[int, Span]:
        self.asked += 1
        if self.fault is not None:
            raise self.fault
        return self.spans

    @property
    def shown(self) -> list[str]:
        return [each.status for each in self.written]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    found = World()

    class PlayedSink:
        broker_ms = 0

        def __init__(self, _: Settings) -> None: ...

        def send(self, topic: str, _: bytes, value: bytes, __: int) -> None:
            if topic == TOPIC:
                found.written.append(cast(ReplayProgress, REPLAY.decode(value).body))
                self.broker_ms = found.broker_ms
            else:
                found.jobs += 1
                found.on_job()

        def flush(self) -> None:
            if found.unacknowledged:
                found.unacknowledged -= 1
                raise KafkaUnavailable("not acknowledged")

        def rest(self) -> None: ...

    class PlayedScan:
        """Gives everything that is left in one batch."""

        def __init__(self, _: Settings, spans: dict[int, Span], __: Any) -> None:
            self.progress = Progress(0, 0, oldest_at=1, types=found.types)
            self._first = spans[0].first

        def batches(self) -> Iterator[Batch]:
            try:
                while found.silent is not None and not found.silent.wait(0.01):
                    yield Batch((), {}, ())
                if self._first < END:
                    offsets = range(self._first, END)
                    events = (_found(n) for n in offsets if n not in UNREADABLE)
                    poison = ((0, n) for n in offsets if n in UNREADABLE)
                    yield Batch(tuple(events), {0: END}, tuple(poison))
            finally:
                found.closed_after.append(found.written[-1].error)

    monkeypatch.setattr(replaying, "Sink", PlayedSink)
    monkeypatch.setattr(replaying, "Scan", PlayedScan)
    monkeypatch.setattr(replaying, "asked_spans", found.spans_now)
    monkeypatch.setattr(Eligibility, "has_body", lambda *_: True)
    yield found
    if found.silent is not None:
        found.silent.set()


def _found(offset: int) -> Found:
    event = make_event(f"k{offset}")
    return Found(0, offset, 1, event, ENVELOPE.encode(event), None)


@pytest.fixture
def process() -> Process:
    return Process(Settings(), load(None), cast(Any, None), lambda _: None, "me")


def ran(process: Process, replay: Replay, *, stuck: bool = False) -> Replaying:
    attempt = Replaying(process, replay, stuck)
    attempt.run()
    assert attempt.over.is_set()
    return attempt


def going_on(replay: Replay, attempt: Replaying, **changes: Any) -> Replay:
    return replace(replay, progress=attempt.progress, **changes)


def test_a_replay_is_fixed_then_read_to_its_end(world: World, process: Process) -> None:
    attempt = ran(process, replace(WAITING, progress=None))
    assert world.shown[0] == "paused"
    assert world.written[0].spans == (ReplaySpan(0, 0, 0, END),)
    assert world.shown[-1] == attempt.progress.status == "done"
    assert (attempt.progress.events, attempt.progress.jobs, world.jobs) == (3, {"x": 3}, 3)
    assert attempt.progress.spans == (ReplaySpan(0, 0, END, END),)
    assert attempt.progress.started_at > 0


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_a_pause_is_obeyed_at_once_and_each_record_is_counted_once(
    world: World, process: Process, jobs: int
) -> None:
    attempt = Replaying(process, WAITING, False)

    def pause() -> None:
        if world.jobs == jobs:
            attempt.replay = replace(WAITING, paused=True)

    world.on_job = pause
    attempt.run()
    paused = attempt.progress
    assert (paused.status, paused.events, world.jobs) == ("paused", jobs, jobs)
    assert paused.unreadable == sum(offset < paused.spans[0].next for offset in UNREADABLE)
    done = ran(process, going_on(WAITING, attempt)).progress
    assert (done.events, done.unreadable, world.jobs) == (3, 3, 3)


def test_a_pause_fixes_what_is_to_be_read_and_a_stop_asks_for_nothing(
    world: World, process: Process
) -> None:
    """What is to be read may be purged during the pause, which could not be told otherwise."""
    paused = ran(process, replace(WAITING, progress=None, paused=True))
    assert (world.shown, paused.progress.spans) == (["paused"], (ReplaySpan(0, 0, 0, END),))
    stopped = replace(WAITING, progress=None, stopped=ReplayStopped("enough"))
    assert ran(process, stopped).progress == ReplayProgress("stopped", ())
    assert (world.asked, world.jobs) == (1, 0)


def test_two_replays_of_one_key_are_stopped_with_the_reason(world: World, process: Process) -> None:
    ended = ran(process, replace(WAITING, clash=True)).progress
    assert (ended.status, "one Idempotency-Key" in str(ended.error)) == ("stopped", True)


def test_a_replay_whose_jobs_may_be_forgotten_asks_for_none(world: World, process: Process) -> None:
    world.broker_ms = 5 + process.topology.finished_jobs_ms + 1
    assert ran(process, replace(WAITING, asked_at=5)).progress.status == "expired"
    assert world.jobs == 0


def test_what_is_purged_while_a_replay_waits_is_told(world: World, process: Process) -> None:
    world.spans = {0: Span(4, 4, END + 10)}
    done = ran(process, WAITING).progress
    assert [note.split(" were")[0] for note in done.notes[:1]] == ["4 offsets of partition 0"]
    assert (done.events, done.status) == (1, "done")
    assert done.spans == (ReplaySpan(0, 0, END, END),)


def test_a_failure_is_shown_before_the_client_is_closed_and_until_the_replay_moves(
    world: World, process: Process
) -> None:
    """A client whose broker died may never close."""

    def fail() -> None:
        raise KafkaUnavailable("no broker")

    world.on_job = fail
    failed = ran(process, WAITING)
    assert (failed.stuck, failed.progress.status) == (True, "running")
    assert (world.written[-1].error, world.closed_after) == ("no broker", ["no broker"])
    world.on_job = lambda: None
    before = len(world.written)
    moved = ran(process, going_on(WAITING, failed), stuck=True)
    assert (moved.stuck, moved.progress.status, moved.progress.error) == (False, "done", None)
    assert world.written[before].error == "no broker"
    assert world.jobs == 4


def test_an_unforeseen_failure_is_shown_too(world: World, process: Process) -> None:
    world.fault = KeyError("unforeseen")
    failed = ran(process, WAITING)
    assert (failed.stuck, failed.progress.error) == (True, "'unforeseen'")


@pytest.mark.parametrize("paused", [False, True])
def test_a_replay_of_which_no_offsets_are_known_waits_and_tells_why(
    world: World, process: Process, paused: bool
) -> None:
    world.fault = KafkaUnavailable("no leader")
    replay = replace(WAITING, progress=None, paused=paused)
    shown = going_on(replay, ran(process, replay))
    assert (shown.status, world.written[-1].error) == (
        ("paused" if paused else "queued"),
        "no leader",
    )


def test_a_pause_after_a_failure_is_written_although_it_stood_there_before(
    world: World, process: Process
) -> None:
    """The resumption and the reason may have been written although nobody acknowledged them."""
    world.unacknowledged = 2
    failed = ran(process, WAITING)
    paused = going_on(WAITING, failed, paused=True)
    assert paused.unobeyed
    ran(process, paused, stuck=True)
    assert world.shown[-1] == "paused"


@pytest.mark.parametrize(("lost", "saved"), [(False, 1), (True, 0)])
def test_a_released_replay_saves_how_far_it_is_unless_another_process_owns_it(
    world: World, process: Process, lost: bool, saved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "_SAVED_EVERY_SECONDS", 0)
    assert WAITING.progress is not None
    stuck = replace(WAITING, progress=replace(WAITING.progress, error="no leader"))
    attempt = Replaying(process, stuck, True)

    def release() -> None:
        attempt.lost, attempt.released = lost, True

    world.on_job = release
    attempt.run()
    assert (world.shown[-1], attempt.progress.events) == ("running", saved)
    assert attempt.progress.error == (None if saved else "no leader")


def test_a_misspelled_type_is_told_unless_the_replay_was_resumed(
    world: World, process: Process
) -> None:
    """After a resumption it has seen a part of the types alone."""
    world.types = {"order.paid"}
    misspelled = replace(WAITING, asked=replace(ASKED, types=("ordr.*",)))
    done = ran(process, misspelled).progress
    again = ran(process, replace(misspelled, progress=replace(done, status="paused", notes=())))
    told = [
        sum("no event has a type 'ordr.*'" in note for note in each.notes)
        for each in (done, again.progress)
    ]
    assert told == [1, 0]


def reading(attempts: list[Replaying]) -> int:
    return sum(attempt.reading for attempt in attempts)


def test_four_replays_read_at_once_and_stuck_ones_leave_two_places_to_the_others(
    world: World, process: Process
) -> None:
    world.silent = Event()
    attempts = [Replaying(process, replace(WAITING, replay_id=f"s{n}"), True) for n in range(4)]
    threads = [Thread(target=attempt.run, daemon=True) for attempt in attempts]
    for thread in threads:
        thread.start()
    eventually(lambda: reading(attempts) == 2, what="two stuck replays read")
    others = [Replaying(process, replace(WAITING, replay_id=f"o{n}"), False) for n in range(3)]
    threads += [Thread(target=attempt.run, daemon=True) for attempt in others]
    for thread in threads[4:]:
        thread.start()
    eventually(lambda: reading(others) == 2, what="two others read beside them")
    assert (reading(attempts), reading(others)) == (2, 2)
    world.silent.set()
    for thread in threads:
        thread.join(30)
    assert {each.progress.status for each in attempts + others} == {"done"}


def test_a_lost_replay_that_fails_writes_nothing_over_what_its_heir_wrote(
    world: World, process: Process
) -> None:
    attempt = Replaying(process, WAITING, False)

    def lose() -> None:
        attempt.lost = attempt.released = True
        raise KafkaUnavailable("no broker")

    world.on_job = lose
    attempt.run()
    assert [each.error for each in world.written] == [None]


@pytest.mark.parametrize("after_jobs", [0, 1])
def test_a_replay_stops_once_the_token_of_who_asked_is_revoked(
    world: World, process: Process, after_jobs: int
) -> None:
    def is_revoked(principal: str) -> bool:
        return principal == "token:t1" and world.jobs >= after_jobs

    ran(replace(process, is_revoked=is_revoked), replace(WAITING, asked_by="token:t1"))
    assert (world.shown[-1], world.jobs) == ("stopped", after_jobs)
    assert [note for note in world.written[-1].notes if "revoked" in note]
