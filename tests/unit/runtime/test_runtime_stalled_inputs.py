"""When an input counts as blocked by an open transaction, and what is said of it."""

from __future__ import annotations

import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from streams.runtime import stalled_inputs
from streams.runtime.stalled_inputs import BlockedInputs

PLACE = ("in", 0)
COMMITTED = IsolationLevel.READ_COMMITTED


class World:
    """One input as a broker would answer for it, and a clock."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.stable = self.end = self.position = 10
        self.silent = self.unanswered = False
        self.leaderless: Any = None

    def request(self, *asked: Any) -> dict[Any, Future[Any]]:
        answers: dict[Any, Future[Any]] = {place: Future() for place in asked[2]}
        for place, answer in answers.items():
            if place == self.leaderless:
                answer.set_exception(KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
            elif self.silent:
                answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
            elif not self.unanswered:
                offset = self.stable if asked[-1] == COMMITTED else self.end
                answer.set_result(SimpleNamespace(offset=offset))
        return answers


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()
    monkeypatch.setattr(stalled_inputs, "request_offsets", found.request)
    monkeypatch.setattr(time, "monotonic", lambda: found.now)
    return found


@pytest.fixture
def inputs(world: World) -> BlockedInputs:
    return BlockedInputs("blocked", None, "t.", lambda *_: world.position)  # type: ignore[arg-type]


def seconds(world: World, inputs: BlockedInputs, after: float = 0.0, places: Any = (PLACE,)) -> Any:
    """The gauge, by what the broker says `after` so many seconds."""
    world.now += after
    inputs.look(places)
    inputs.look(places)
    return REGISTRY.get_sample_value("tidegate_stage_blocked_seconds", {"stage": "blocked"})


def test_an_input_without_open_transactions_is_not_blocked(
    world: World, inputs: BlockedInputs
) -> None:
    for _ in range(3):
        world.stable = world.end = world.position = world.end + 5
        assert seconds(world, inputs, 10) == 0


def test_a_stable_offset_that_stands_with_records_behind_it_blocks(
    world: World, inputs: BlockedInputs
) -> None:
    world.end = 12
    assert seconds(world, inputs) == 0
    assert seconds(world, inputs, 7) == 7
    world.end = 900
    assert seconds(world, inputs, 5) == 12
    world.stable = world.position = 901
    world.end = 901
    assert seconds(world, inputs, 5) == 0


def test_a_stable_offset_that_moves_is_no_block(world: World, inputs: BlockedInputs) -> None:
    for _ in range(5):
        world.stable += 10
        world.position, world.end = world.stable, world.stable + 3
        assert seconds(world, inputs, 10) == 0


def test_who_has_not_read_up_to_it_is_behind_and_not_blocked(
    world: World, inputs: BlockedInputs
) -> None:
    world.end, world.position = 12, 9
    assert [seconds(world, inputs, 10) for _ in range(3)] == [0, 0, 0]


def test_a_broker_that_is_away_proves_nothing(world: World, inputs: BlockedInputs) -> None:
    world.end = 12
    seconds(world, inputs)
    world.silent = True
    assert seconds(world, inputs, 50) == 0
    world.silent = False
    assert seconds(world, inputs, 2) == 52


@pytest.mark.parametrize("leaderless", [PLACE, ("other", 0)])
def test_an_input_without_a_leader_leaves_the_others_judged(
    world: World, inputs: BlockedInputs, leaderless: Any
) -> None:
    world.end, both = 12, (PLACE, ("other", 0))
    seconds(world, inputs, places=both)
    world.leaderless = leaderless
    assert seconds(world, inputs, 20, both) == 20
    world.leaderless = both[leaderless == PLACE]
    assert seconds(world, inputs, 20, both) == 40, "it is still known since when it is blocked"


def test_a_question_is_not_repeated_before_its_answer(
    world: World, inputs: BlockedInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    request = world.request

    def noting(*all_: Any) -> Any:
        asked.append(all_)
        return request(*all_)

    monkeypatch.setattr(stalled_inputs, "request_offsets", noting)
    world.unanswered = True
    for _ in range(3):
        inputs.look([PLACE])
    assert len(asked) == 2, "one for each isolation level"


def test_what_is_another_processes_now_does_not_count(world: World, inputs: BlockedInputs) -> None:
    world.end = 12
    seconds(world, inputs)
    assert seconds(world, inputs, 35) == 35
    with capture_logs() as logged:
        assert seconds(world, inputs, 5, places=()) == 0
    assert logged == [], "nobody here knows whether it goes on"
    assert seconds(world, inputs, 5) == 0, "it counts from when it is ours again"


def test_it_is_told_once_for_each_transaction_and_that_it_ended(
    world: World, inputs: BlockedInputs
) -> None:
    world.end = 12
    with capture_logs() as logged:
        seconds(world, inputs)
        seconds(world, inputs, 29)
        assert logged == []
        for _ in range(3):
            seconds(world, inputs, 1)
        world.position = world.stable = 11
        seconds(world, inputs, 1)
        seconds(world, inputs, 30)
        world.stable = world.position = 12
        seconds(world, inputs, 1)
    assert [(line["log_level"], line.get("offset")) for line in logged] == [
        ("warning", 10),
        ("info", None),
        ("warning", 11),
        ("info", None),
    ]
    first = logged[0]
    assert (first["topic"], first["partition"]) == (f"t.{PLACE[0]}", PLACE[1])
    assert "kafka-transactions.sh" in first["event"]
    assert first["since"]
