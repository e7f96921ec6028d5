"""What `tidegate_stage_lag_seconds` and `..._records` say, second by second."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from streams.kafka.offsets import Ends, Place
from streams.runtime.lag import Lag
from streams.runtime.processor import Record

ONE, TWO = ("in", 0), ("in", 1)


class World:
    """A stage and its broker: ends, positions, and a clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 5_000.0
        self.ends: dict[Place, int] = {}
        self.positions: dict[Place, int] = {}
        self.inputs: list[Place] = []
        self.silent = False
        self._answered: Ends | None = None
        blocked: Any = SimpleNamespace(look=lambda _: None)
        ends: Any = self
        self.lag = Lag("lagging", ends, blocked, lambda: self.now)

    def assign(self, **positions: tuple[int, int]) -> None:
        """Give the stage inputs, each with its position and its end."""
        places = {"one": ONE, "two": TWO}
        self.positions = {places[name]: at for name, (at, _) in positions.items()}
        self.ends = {places[name]: end for name, (_, end) in positions.items()}
        self.inputs, self._answered = list(self.ends), None

    def newest(self) -> Ends | None:
        return self._answered

    def ask(self) -> None:
        if not self.silent and self.inputs:
            complete = self.ends.keys() == self.positions.keys()
            self._answered = Ends(self.now, dict(self.ends), complete)

    def position(self, topic: str, partition: int) -> int:
        return self.positions[topic, partition]

    def shown(self, after: float = 0.0, *, rounds: bool = True) -> tuple[float, float]:
        """Records and seconds behind, after so many seconds in which the stage's thread runs."""
        until = self.now + after
        while self.now < until:
            self.now += 1
            if rounds:
                self.lag.measure([])
        return sample("records"), sample("seconds")


def sample(unit: str) -> float:
    found = REGISTRY.get_sample_value(f"tidegate_stage_lag_{unit}", {"stage": "lagging"})
    return -1.0 if found is None else found


def record(at: int) -> Record:
    return Record("in", 0, 0, at, None, b"")


@pytest.fixture
def world() -> World:
    return World()


def test_a_stage_that_has_read_all_is_not_behind(world: World) -> None:
    world.assign(one=(7, 7))
    assert world.shown(30) == (0, 0)


def test_a_single_new_record_is_not_as_old_as_the_one_before_it(world: World) -> None:
    world.assign(one=(7, 7))
    world.lag.measure([record(int((time.time() - 3_600) * 1000))])
    world.shown(10)
    world.ends[ONE] = 8
    records, seconds = world.shown(4)
    assert records == 1
    assert 0 < seconds <= 8


def test_a_record_that_is_never_read_grows_older(world: World) -> None:
    world.assign(one=(7, 7))
    world.shown(10)
    world.ends[ONE] = 8
    assert 60 <= world.shown(60)[1] <= 66


def test_one_input_that_stands_still_is_not_hidden_by_another_that_moves(world: World) -> None:
    world.assign(one=(7, 7), two=(100, 100))
    world.shown(10)
    world.ends[ONE] = 8
    for _ in range(60):
        world.ends[TWO] = world.positions[TWO] = world.positions[TWO] + 10
        world.lag.measure([record(int(time.time() * 1000))])
        world.shown(1)
    assert 60 <= world.shown()[1] <= 66


def test_a_stage_that_is_steadily_behind_shows_at_most_twice_by_how_much(world: World) -> None:
    world.assign(one=(0, 0))
    world.shown(4)
    found = []
    for second in range(300):
        world.ends[ONE] = 10 * second
        world.positions[ONE] = max(0, 10 * (second - 20))  # everything waits for 20 s
        found.append(world.shown(1)[1])
    assert all(20 <= each <= 2 * 20 + 6 for each in found[60:])


def test_a_stage_that_begins_far_behind_shows_the_age_of_what_it_processes(world: World) -> None:
    world.assign(one=(0, 1_000))
    assert 25 <= world.shown(30)[1] <= 30, "nothing is processed yet: it has waited that long"
    world.lag.measure([record(int((time.time() - 3 * 86_400) * 1000))])
    assert world.shown(4)[1] == pytest.approx(3 * 86_400, abs=60)


def test_a_partition_that_was_taken_over_is_judged_anew(world: World) -> None:
    world.assign(one=(7, 7))
    world.shown(60)
    world.assign(one=(7, 7), two=(0, 500))
    world.lag.measure([record(int((time.time() - 900) * 1000))])
    assert world.shown(6)[1] == pytest.approx(900, abs=60)


def test_what_waits_grows_older_though_other_partitions_come_and_go(world: World) -> None:
    for _ in range(3):
        world.assign(one=(0, 500))
        world.shown(60)
        world.assign(one=(0, 500), two=(7, 7))
        world.shown(60)
    assert 350 <= world.shown()[1] <= 360


def test_a_process_without_partitions_is_behind_with_nothing(world: World) -> None:
    world.assign(one=(0, 1_000))
    assert world.shown(30)[0] == 1_000
    world.assign()
    assert world.shown(60) == (0, 0)


def test_the_silence_of_the_broker_counts_as_lag(world: World) -> None:
    world.assign(one=(7, 7))
    world.shown(10)
    world.silent = True
    assert 60 <= world.shown(60)[1] <= 66
    world.silent = False
    assert world.shown(4) == (0, 0)


def test_so_does_the_silence_about_one_input(world: World) -> None:
    world.assign(one=(7, 7), two=(7, 7))
    world.shown(10)
    lost = world.ends.pop(TWO)
    assert 60 <= world.shown(60)[1] <= 66
    world.ends[TWO] = lost
    assert world.shown(4) == (0, 0)


def test_a_thread_that_hangs_counts_as_lag(world: World) -> None:
    world.assign(one=(7, 7))
    world.shown(10)
    assert 60 <= world.shown(60, rounds=False)[1] <= 66
