"""What a process does about the bulk acts that it owns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import cast

import pytest

from streams.bulk.act import Act
from streams.bulk.owned import OwnedActs
from streams.bulk.working import Working
from streams.serde.bulk_records import (
    BulkAsked,
    BulkBody,
    BulkItem,
    BulkPaused,
    BulkProgress,
    BulkRecord,
)

ASKED = BulkAsked("a", "{}", "{}", "why", "admin", None, None, 1, (), {}, (), None, b"d")
ITEM = BulkItem("i0", 0, "acme", b"d")
OURS = "this process"


@dataclass
class PlayedAttempt:
    """An attempt that ends when it is told to."""

    act: Act
    given: Sequence[BulkItem]
    stuck: bool
    plan: bytes = b"d"
    progress: BulkProgress = field(default_factory=lambda: BulkProgress("running"))
    items: dict[str, BulkItem] = field(default_factory=dict)
    released: bool = False
    lost: bool = False
    over: Event = field(default_factory=Event)

    def end(self, progress: BulkProgress) -> None:
        self.progress, self.stuck = progress, progress.error is not None
        self.over.set()


class World:
    """The acts of a process, the attempts at them, and a clock."""

    def __init__(self) -> None:
        self.attempts: list[PlayedAttempt] = []
        self.now = 0.0
        self.owned = OwnedActs(OURS, self._begin, lambda _: None, lambda: self.now)

    def told(self, body: BulkBody, by: str = "operator") -> None:
        self.owned.fold(0, BulkRecord("b1", 1, by, body))

    def carry(self, after_seconds: float = 10) -> None:
        self.now += after_seconds
        self.owned.carry()

    def _begin(self, act: Act, items: Sequence[BulkItem], stuck: bool) -> Working:
        self.attempts.append(PlayedAttempt(act, items, stuck))
        return cast(Working, self.attempts[-1])


@pytest.fixture
def world() -> World:
    return World()


def begun(world: World) -> PlayedAttempt:
    world.told(ITEM)
    world.told(ASKED)
    world.owned.read_to_end(0)
    world.carry()
    return world.attempts[0]


def test_nothing_is_begun_before_everything_about_the_partition_is_known(world: World) -> None:
    world.told(ITEM)
    world.told(ASKED)
    world.carry()
    assert world.attempts == []
    world.told(BulkProgress("done"), by="another process")
    world.owned.read_to_end(0)
    world.carry()
    assert world.attempts == []


def test_an_act_has_one_attempt_at_a_time_and_gets_its_items(world: World) -> None:
    attempt = begun(world)
    world.carry()
    assert [each.given for each in world.attempts] == [(ITEM,)]
    attempt.end(BulkProgress("done"))
    world.carry()
    world.told(BulkProgress("running"), by=OURS)  # read late
    world.carry()
    assert len(world.attempts) == 1


def test_a_stuck_attempt_is_repeated_after_a_while(world: World) -> None:
    begun(world).end(BulkProgress("running", error="Kafka is away"))
    world.carry(0)
    world.carry(1)
    assert len(world.attempts) == 1
    world.carry(10)
    assert world.attempts[1].stuck


def test_a_resumption_that_is_read_with_the_stop_lets_the_act_go_on(world: World) -> None:
    stopped = BulkProgress("stopped", stops=1)
    begun(world).end(stopped)
    world.told(stopped, by=OURS)
    world.told(BulkPaused(False, 1))
    world.carry()
    world.carry()
    assert len(world.attempts) == 2


def test_an_end_is_written_once_more_if_an_earlier_owner_writes_after_it(world: World) -> None:
    done = BulkProgress("done", done=1)
    begun(world).end(done)
    world.carry()
    world.told(BulkProgress("running"), by="an earlier owner")
    world.carry()
    assert len(world.attempts) == 2
    assert world.attempts[1].act.progress == done
    world.attempts[1].end(done)
    world.carry()
    world.carry()
    assert len(world.attempts) == 2


def test_an_end_is_written_again_if_an_earlier_owner_wrote_while_it_came(world: World) -> None:
    attempt = begun(world)
    attempt.end(BulkProgress("done", done=1))
    world.told(BulkProgress("running"), by="an earlier owner")
    world.carry()
    world.carry()
    assert world.attempts[1].act.progress == BulkProgress("done", done=1)


def test_an_end_under_a_late_progress_is_found_by_the_next_owner(world: World) -> None:
    done = BulkProgress("done", done=1)
    world.told(ITEM)
    world.told(ASKED)
    world.told(done, by="an owner")
    world.told(BulkProgress("running"), by="an earlier owner")
    world.owned.read_to_end(0)
    world.carry()
    assert world.attempts[0].act.progress == done
    world.told(done, by="another process")
    world.attempts[0].end(done)
    world.carry()


def test_an_end_that_could_not_be_written_again_is_tried_again(world: World) -> None:
    done = BulkProgress("done", done=1)
    begun(world).end(done)
    world.carry()
    world.told(BulkProgress("running"), by="an earlier owner")
    world.carry()
    world.attempts[1].end(replace(done, error="Kafka is away"))
    world.carry()
    world.carry()
    assert len(world.attempts) == 3


def test_a_stop_that_an_earlier_owner_writes_at_the_end_of_an_attempt_is_kept(
    world: World,
) -> None:
    begun(world).end(BulkProgress("running", error="Kafka is away"))
    stopped = BulkProgress("stopped", stops=1, because="1 items failed, and 1 stop it")
    world.told(stopped, by="an earlier owner")
    world.carry()
    world.carry()
    assert world.attempts[1].act.is_stopped


def test_a_late_progress_does_not_undo_a_stop(world: World) -> None:
    stopped = BulkProgress("stopped", stops=1)
    begun(world).end(stopped)
    world.carry()
    world.told(BulkProgress("running"), by="an earlier owner")
    world.carry()
    act = world.attempts[1].act
    assert (act.progress, act.ordered) == (stopped, "stopped")


def test_items_of_another_plan_do_not_replace_those_that_are_dealt_with(world: World) -> None:
    attempt = begun(world)
    world.told(replace(ITEM, digest=b"another plan"))
    attempt.items = {ITEM.item: replace(ITEM, outcome="done")}
    attempt.end(BulkProgress("running", error="Kafka is away"))
    world.carry()
    world.carry()
    ours = [each for each in world.attempts[1].given if each.digest == ITEM.digest]
    assert ours == [replace(ITEM, outcome="done")]


@pytest.mark.parametrize("by", [OURS, "an earlier owner"])
def test_items_that_come_before_another_plans_end_are_kept_for_their_own_plan(
    world: World, by: str
) -> None:
    attempt, again, done = begun(world), replace(ITEM, digest=b"another plan"), BulkProgress("done")
    world.told(again)
    if by == OURS:
        attempt.end(done)
    world.told(done, by=by)
    world.carry()
    world.told(replace(ASKED, plan=b"another plan"))
    attempt.end(done)
    world.carry()
    world.carry()
    assert world.attempts[-1].given == (again,)


def test_what_is_late_of_another_plan_does_not_end_an_act(world: World) -> None:
    world.told(ITEM)
    world.told(replace(ITEM, digest=b"another plan"))
    world.told(ASKED)
    world.told(replace(ASKED, plan=b"another plan"))
    world.told(BulkProgress("done", done=1, plan=b"d"), by="an earlier owner")
    world.owned.read_to_end(0)
    world.carry()
    assert world.attempts[0].act.progress is None


@pytest.mark.parametrize("ended", [False, True])
def test_a_plan_that_was_made_at_the_same_time_is_carried_as_a_whole(
    world: World, ended: bool
) -> None:
    attempt, again = begun(world), replace(ITEM, digest=b"another plan")
    if ended:
        attempt.end(BulkProgress("done", done=1))
        world.carry()
    world.told(again)
    world.told(replace(ASKED, plan=b"another plan"))
    attempt.end(BulkProgress("done", done=1))
    world.carry()
    world.carry()
    assert again in world.attempts[1].given
    assert world.attempts[1].act.progress is None


def test_a_process_that_loses_a_partition_ends_its_attempts(world: World) -> None:
    attempt = begun(world)
    assert [*map(id, world.owned.release([0], lost=True))] == [id(attempt)]
    assert (attempt.released, attempt.lost, world.owned.partitions) == (True, True, [])
