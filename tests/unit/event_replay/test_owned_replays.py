"""What a process does about the replays that it owns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from streams.event_replay.carrier import OwnedReplays
from streams.event_replay.replay import Replay
from streams.event_replay.replaying import Replaying
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
OURS = "this process"


def at(offset: int, status: Any, error: str | None = None) -> ReplayProgress:
    return ReplayProgress(status, (ReplaySpan(0, 0, offset, 3),), error=error)


@dataclass
class PlayedAttempt:
    """An attempt that ends when it is told to."""

    replay: Replay
    stuck: bool
    progress: ReplayProgress = field(default_factory=lambda: at(0, "running"))
    reading: bool = True
    released: bool = False
    lost: bool = False
    over: Event = field(default_factory=Event)

    def end(self, progress: ReplayProgress) -> None:
        self.progress, self.stuck = progress, progress.error is not None
        self.over.set()


class World:
    """The replays of a process, the attempts at them, and a clock."""

    def __init__(self) -> None:
        self.attempts: list[PlayedAttempt] = []
        self.started: list[object] = []
        self.now = 0.0
        self.owned = OwnedReplays(OURS, self._begin, self.started.append, lambda: self.now)

    def told(self, body: ReplayBody, by: str = "operator", id_: str = "r1") -> None:
        self.owned.fold(0, ReplayRecord(id_, 1, by, body))

    def carry(self, after_seconds: float = 10) -> None:
        self.now += after_seconds
        self.owned.carry()

    def _begin(self, replay: Replay, stuck: bool) -> Replaying:
        self.attempts.append(PlayedAttempt(replay, stuck))
        return cast(Replaying, self.attempts[-1])


def stuck() -> float | None:
    return REGISTRY.get_sample_value("tidegate_operator_replays_stuck")


@pytest.fixture
def world() -> World:
    return World()


def begun(world: World) -> PlayedAttempt:
    world.told(ASKED)
    world.owned.read_to_end(0)
    world.carry()
    return world.attempts[0]


def test_nothing_is_begun_before_everything_about_the_partition_is_known(world: World) -> None:
    world.told(ASKED)
    world.carry()
    assert world.attempts == []
    world.told(at(3, "done"), by="another process")
    world.owned.read_to_end(0)
    world.carry()
    assert world.attempts == []


def test_a_replay_has_one_attempt_at_a_time_and_none_after_its_end(world: World) -> None:
    attempt = begun(world)
    world.carry()
    assert world.started == [attempt]
    attempt.end(at(3, "done"))
    world.carry()
    world.carry()
    assert world.started == [attempt]


def test_an_attempt_learns_what_is_ordered_and_the_next_one_goes_on_from_its_end(
    world: World,
) -> None:
    attempt = begun(world)
    world.told(ReplayPaused(True))
    assert attempt.replay.ordered == "paused"
    attempt.end(at(1, "paused"))
    world.carry()
    world.carry()
    assert len(world.attempts) == 1
    world.told(ReplayPaused(False))
    world.carry()
    assert world.attempts[1].replay.progress == at(1, "paused")


def test_a_paused_replay_of_which_nothing_is_fixed_gets_an_attempt(world: World) -> None:
    """It must fix what it has to read: that may be purged during the pause."""
    world.told(ASKED)
    world.told(ReplayPaused(True))
    world.told(ReplayProgress("paused", ()), by="another process")
    world.owned.read_to_end(0)
    world.carry()
    assert len(world.attempts) == 1


def test_its_own_older_progress_read_late_does_not_take_it_back(world: World) -> None:
    begun(world).end(at(3, "done"))
    world.carry()
    world.told(at(1, "running"), by=OURS)
    world.carry()
    assert len(world.attempts) == 1


def test_a_late_word_of_a_former_owner_is_worked_off_again(world: World) -> None:
    begun(world).end(at(3, "done"))
    world.carry()
    world.told(at(1, "running"), by="another process")
    world.carry()
    assert world.attempts[1].replay.progress == at(1, "running")


@pytest.mark.parametrize("lost", [False, True])
def test_a_partition_that_is_given_back_goes_on_from_its_progress_when_it_returns(
    world: World, lost: bool
) -> None:
    attempt = begun(world)
    assert world.owned.release([0], lost=lost) == [cast(Replaying, attempt)]
    assert (attempt.released, attempt.lost, world.owned.partitions) == (True, lost, [])
    world.told(ASKED)
    world.told(at(1, "running"), by=OURS)
    world.owned.read_to_end(0)
    world.carry()
    assert world.attempts[1].replay.progress == at(1, "running")


def test_a_failed_replay_is_stuck_and_tried_again_five_seconds_later_until_it_moves(
    world: World,
) -> None:
    begun(world).end(at(1, "running", "no leader"))
    world.carry(1)
    world.carry(4.9)
    assert (len(world.attempts), stuck()) == (1, 1)
    world.carry(0.1)
    attempt = world.attempts[1]
    assert (attempt.replay.progress, attempt.stuck) == (at(1, "running", "no leader"), True)
    assert stuck() == 1
    attempt.stuck = False
    world.carry()
    assert stuck() == 0


def test_stuck_replays_take_no_turn_from_the_others(world: World) -> None:
    begun(world).end(at(1, "running", "no leader"))
    world.told(ASKED, id_="r2")
    world.carry(0.1)
    assert [each.replay.replay_id for each in world.attempts] == ["r1", "r2"]


def test_a_replay_that_another_process_has_ended_is_not_stuck(world: World) -> None:
    begun(world).end(at(1, "running", "gone"))
    world.carry()
    world.told(at(3, "done"), by="another process")
    world.carry()
    assert (len(world.attempts), stuck()) == (1, 0)


@pytest.mark.parametrize(
    ("replay", "status"),
    [
        (Replay("r", ASKED), "queued"),
        (Replay("r", ASKED, paused=True), "paused"),
        (Replay("r", ASKED, progress=at(1, "running")), "running"),
        (Replay("r", ASKED, progress=at(1, "running"), paused=True), "pausing"),
        (Replay("r", ASKED, progress=at(1, "paused"), paused=True), "paused"),
        (Replay("r", ASKED, progress=at(1, "paused")), "queued"),
        (Replay("r", ASKED, progress=at(1, "running"), stopped=ReplayStopped("")), "stopping"),
        (Replay("r", ASKED, progress=at(1, "stopped"), stopped=ReplayStopped("")), "stopped"),
        (Replay("r", ASKED, progress=at(3, "done"), stopped=ReplayStopped("")), "done"),
    ],
)
def test_the_status_tells_what_it_is_and_what_it_has_still_to_obey(
    replay: Replay, status: str
) -> None:
    assert replay.status == status


def test_a_stop_is_final_and_two_replays_of_one_key_are_stopped() -> None:
    """Otherwise what one of them has read would count as read by the other."""
    bodies: list[ReplayBody] = [ASKED, ReplayStopped("enough"), ReplayPaused(False)]
    other = replace(ASKED, tenant_id="acme", digest=b"e")
    for told in (bodies, [ASKED, ASKED, other]):
        replay = Replay("r")
        for body in told:
            replay = replay.folded(ReplayRecord("r", 1, "operator", body))
        assert replay.ordered == "stopped"
    assert not Replay("r").folded(ReplayRecord("r", 1, "o", ASKED)).clash
