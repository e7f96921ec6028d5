"""What a process does about the replays that it owns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from streams.errors import KafkaUnavailable
from streams.event_replay.desk import Desk
from streams.event_replay.known import Known
from streams.event_replay.work import Work
from streams.serde.replay_records import (
    ReplayAsked,
    ReplayBody,
    ReplayPaused,
    ReplayProgress,
    ReplayRecord,
    ReplaySpan,
    ReplayStopped,
)

ASKED = ReplayAsked("why", None, None, (), None, None, None, (), "x", "batch", 10.0, b"d")
KEPT_MS = 1_000_000
OURS = "this desk"


@dataclass
class PlayedWork:
    """A work of three steps, which can be told to fail."""

    known: Known
    left: int = 3
    fault: Exception | None = None
    closed: bool = False
    saved: ReplayProgress | None = None
    progress: ReplayProgress = field(default_factory=lambda: at(0, "running"))

    def step(self) -> bool:
        if self.fault is not None:
            raise self.fault
        self.left -= 1
        self.progress = at(3 - self.left, "running" if self.left else "done")
        return self.left > 0

    def save(self, status: Any, error: str | None = None) -> ReplayProgress:
        self.saved = replace(self.progress, status=status, error=error)
        return self.saved

    def close(self) -> None:
        self.closed = True


def at(offset: int, status: Any) -> ReplayProgress:
    return ReplayProgress(status, (ReplaySpan(0, 0, offset, 3),))


class World:
    """A desk, the works that it has opened, and what it has written."""

    def __init__(self) -> None:
        self.works: list[PlayedWork] = []
        self.written: list[ReplayProgress] = []
        self.broker_ms = 0
        self.now = 0.0
        self.fault: Exception | None = None
        self.desk = Desk(OURS, KEPT_MS, self._open, self._write, lambda: self.broker_ms)

    def told(self, body: ReplayBody, by: str = "operator", at: int = 1, id_: str = "r1") -> None:
        self.desk.fold(0, ReplayRecord(id_, at, by, body))

    def work(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += 10
            self.desk.work(self.now)

    def _open(self, known: Known) -> Work:
        if self.fault is not None:
            raise self.fault
        self.works.append(PlayedWork(known))
        return cast(Work, self.works[-1])

    def _write(self, _: Known, progress: ReplayProgress) -> None:
        self.written.append(progress)


@pytest.fixture
def world() -> World:
    return World()


def begun(world: World) -> PlayedWork:
    world.told(ASKED)
    world.desk.read_to_end(0)
    world.work()
    return world.works[0]


def test_nothing_is_begun_before_everything_about_the_partition_is_known(world: World) -> None:
    world.told(ASKED)
    world.work(3)
    assert world.works == []
    world.told(ReplayStopped("enough"))
    world.desk.read_to_end(0)
    world.work(3)
    assert (world.works, [each.status for each in world.written]) == ([], ["stopped"])


def test_a_replay_is_stuck_until_it_moves_though_it_can_be_begun_again(world: World) -> None:
    shown: list[float | None] = []

    def look(times: int = 1) -> None:
        for _ in range(times):
            world.work()
            shown.append(REGISTRY.get_sample_value("tidegate_operator_replays_stuck"))

    begun(world).fault = KafkaUnavailable("gone")
    look(2)
    world.works[-1].fault = KafkaUnavailable("gone")
    look(2)
    look(1)
    assert len(world.works) == 3
    assert shown == [1, 1, 1, 1, 0]


def test_a_replay_is_worked_on_to_its_end_and_never_again(world: World) -> None:
    work = begun(world)
    world.work(5)
    assert (work.left, work.closed, len(world.works), world.desk.busy) == (0, True, 1, False)


def test_a_pause_is_obeyed_saved_once_and_ended_by_a_resumption(world: World) -> None:
    work = begun(world)
    world.work()
    world.told(ReplayPaused(True))
    world.work(3)
    assert (work.saved, work.closed) == (replace(at(1, "paused")), True)
    world.told(ReplayPaused(False))
    world.work()
    assert world.works[1].known.progress == at(1, "paused")


def test_a_stop_is_final_whatever_comes_after_it(world: World) -> None:
    work = begun(world)
    world.told(ReplayStopped("enough"))
    world.told(ReplayPaused(False))
    world.work(3)
    assert (work.saved, len(world.works)) == (at(0, "stopped"), 1)


@pytest.mark.parametrize("at_work", [False, True])
def test_two_replays_that_were_asked_for_with_one_key_at_once_are_stopped(
    world: World, at_work: bool
) -> None:
    """Otherwise what one of them has read would count as read by the other."""
    if at_work:
        begun(world)
    else:
        world.told(ASKED)
    world.told(ASKED)  # the same one, which a second process took
    world.told(replace(ASKED, tenant_id="acme", digest=b"e"))
    world.desk.read_to_end(0)
    world.work(3)
    ended = world.works[0].saved if at_work else world.written[-1]
    assert ended is not None
    assert (ended.status, "one Idempotency-Key" in str(ended.error)) == ("stopped", True)
    assert len(world.works) == at_work


def test_its_own_older_progress_read_late_does_not_take_it_back(world: World) -> None:
    begun(world)
    world.work(3)
    world.told(at(1, "running"), by=OURS)
    world.work(3)
    assert len(world.works) == 1


def test_progress_that_it_wrote_before_it_gave_the_partition_back_is_where_it_goes_on(
    world: World,
) -> None:
    work = begun(world)
    world.work()
    world.desk.give_back([0])
    assert (work.saved, work.closed) == (at(1, "running"), True)
    world.told(ASKED)
    world.told(at(1, "running"), by=OURS)
    world.desk.read_to_end(0)
    world.work()
    assert world.works[1].known.progress == at(1, "running")


def test_a_late_word_of_a_former_owner_is_worked_off_again(world: World) -> None:
    begun(world)
    world.work(3)
    world.told(at(1, "running"), by="another desk")
    world.work(4)
    assert [work.closed for work in world.works] == [True, True]
    assert world.works[1].known.progress == at(1, "running")


def test_after_a_failure_it_goes_on_from_what_is_saved_and_says_why_it_stood_still(
    world: World,
) -> None:
    work = begun(world)
    work.saved, work.fault = at(2, "running"), KafkaUnavailable("no broker")
    world.desk.work(world.now)
    assert world.written[-1] == replace(at(2, "running"), error="no broker")
    world.desk.work(world.now + 1)
    assert (work.closed, len(world.works)) == (True, 1)
    world.work(2)
    assert world.works[1].known.progress == replace(at(2, "running"), error="no broker")


def test_a_pause_is_obeyed_although_the_resumption_before_it_failed_unsaid(world: World) -> None:
    """The topic says `running`, and the reason could not be written: `paused` must follow."""
    world.told(ASKED)
    world.told(at(1, "paused"))
    world.desk.read_to_end(0)
    world.fault = KafkaUnavailable("no broker")
    world.work()
    world.told(ReplayPaused(True))
    world.work()
    assert [each.status for each in world.written] == ["running", "running", "paused"]


def test_a_replay_that_fails_unforeseen_hinders_no_other(world: World) -> None:
    broken = begun(world)
    broken.fault = KeyError("unforeseen")
    world.told(ASKED, id_="r2")
    world.work(5)
    others = [work for work in world.works if work.known.replay_id == "r2"]
    assert [work.left for work in others] == [0]
    assert "'unforeseen'" in {progress.error for progress in world.written}


def test_a_replay_whose_jobs_may_be_forgotten_is_not_begun_again(world: World) -> None:
    world.told(ASKED, at=5)
    world.told(at(1, "running"), by="another desk")
    world.desk.read_to_end(0)
    world.broker_ms = 5 + KEPT_MS + 1
    world.work(3)
    assert world.works == []
    assert world.written[-1].status == "expired"


def test_four_replays_run_at_once_and_the_others_wait_their_turn(world: World) -> None:
    for number in range(6):
        world.told(ASKED, id_=f"r{number}")
    world.desk.read_to_end(0)
    world.work(2)
    assert len(world.works) == 4
    world.work(8)
    assert len(world.works) == 6


def test_a_replay_that_has_failed_and_waits_for_its_turn_is_not_stuck(world: World) -> None:
    for number in range(6):
        world.told(ASKED, id_=f"r{number}")
    world.desk.read_to_end(0)
    world.fault = KafkaUnavailable("no broker")
    world.work()
    assert REGISTRY.get_sample_value("tidegate_operator_replays_stuck") == 6
    world.fault = None
    world.work(2)
    assert len(world.works) == 4
    assert REGISTRY.get_sample_value("tidegate_operator_replays_stuck") == 0


@pytest.mark.parametrize(
    ("known", "status"),
    [
        (Known("r", ASKED), "queued"),
        (Known("r", ASKED, paused=True), "paused"),
        (Known("r", ASKED, progress=at(1, "running")), "running"),
        (Known("r", ASKED, progress=at(1, "running"), paused=True), "pausing"),
        (Known("r", ASKED, progress=at(1, "paused"), paused=True), "paused"),
        (Known("r", ASKED, progress=at(1, "paused")), "queued"),
        (Known("r", ASKED, progress=at(1, "running"), stopped=ReplayStopped("")), "stopping"),
        (Known("r", ASKED, progress=at(1, "stopped"), stopped=ReplayStopped("")), "stopped"),
        (Known("r", ASKED, progress=at(3, "done"), stopped=ReplayStopped("")), "done"),
    ],
)
def test_the_status_tells_what_it_is_and_what_it_has_still_to_obey(
    known: Known, status: str
) -> None:
    assert known.status == status
