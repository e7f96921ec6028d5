"""A step of the broker's clock is told, not followed, and not forgotten by starting again."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
)
from support.counting import counting_stage, counting_topology
from support.moved_clocks import HOUR, Broker

from streams.errors import ClockStepped, ConfigError
from streams.process.boot_clock import CLOCK
from streams.runtime.broker_clock import STEP_MS, BrokerClock
from streams.runtime.loop import StageLoop
from streams.settings import Settings


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def clock(broker: Broker) -> BrokerClock:
    found = broker.clock("t-clock")
    found.read()
    return found


@pytest.mark.parametrize(("step", "told"), [(12 * HOUR, "+43200.0 s"), (-12 * HOUR, "-43200.0 s")])
def test_a_step_of_the_brokers_clock_is_told_and_not_followed(
    broker: Broker, clock: BrokerClock, step: int, told: str
) -> None:
    before = clock.now()
    broker.ahead_ms += step
    with pytest.raises(ClockStepped) as stepped:
        clock.read()
    assert f"the broker's clock moved by {told}" in str(stepped.value)
    assert "Mend the time service of the brokers" in str(stepped.value)
    assert 0 <= clock.now() - before <= 3


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Where a process keeps what it knows of the time, on a machine that names its boots."""
    (tmp_path / "boot_id").write_text("one\n")
    return tmp_path / "state" / "clock"


@pytest.mark.parametrize("step", [-12 * HOUR, 12 * HOUR])
def test_a_step_is_not_forgotten_by_starting_again(broker: Broker, memory: Path, step: int) -> None:
    """Something starts the stage at once: that alone must not make the new time the right one."""
    broker.clock(memory=memory).read()
    broker.ahead_ms += step
    for _ in range(2):
        broker.passes(60_000)
        with pytest.raises(ClockStepped, match=f"delete {memory} and start it"):
            broker.clock(memory=memory).read()


def test_a_clock_that_was_mended_is_believed_again(broker: Broker, memory: Path) -> None:
    broker.clock(memory=memory).read()
    broker.ahead_ms += 12 * HOUR
    with pytest.raises(ClockStepped):
        broker.clock(memory=memory).read()
    broker.passes(HOUR)
    broker.ahead_ms -= 12 * HOUR
    again = broker.clock(memory=memory)
    again.read()
    assert 0 <= broker.now - again.now() <= 3


def test_a_new_process_does_not_run_behind_the_one_before(broker: Broker, memory: Path) -> None:
    before = broker.clock(memory=memory)
    before.read()
    latest = before.now()
    broker.ahead_ms -= 800
    again = broker.clock(memory=memory)
    again.read()
    assert latest <= again.now() <= latest + 3


def test_who_deletes_what_was_kept_takes_the_time_as_it_is(broker: Broker, memory: Path) -> None:
    broker.clock(memory=memory).read()
    broker.ahead_ms += 12 * HOUR
    memory.unlink()
    again = broker.clock(memory=memory)
    again.read()
    assert 0 <= broker.now - again.now() <= 3


def test_after_another_boot_what_was_kept_says_nothing(broker: Broker, memory: Path) -> None:
    broker.clock(memory=memory).read()
    (memory.parent.parent / "boot_id").write_text("two")
    broker.boot_ms, broker.ahead_ms = HOUR, broker.ahead_ms - 12 * HOUR
    again = broker.clock(memory=memory)
    again.read()
    assert 0 <= broker.now - again.now() <= 3


def test_what_another_boot_clock_kept_says_nothing(broker: Broker, memory: Path) -> None:
    """A release before may have timed by one that time services hasten; the step is not one."""
    broker.clock(memory=memory).read()
    kept = json.loads(memory.read_text())
    assert kept.pop("clock") == CLOCK
    broker.ahead_ms += 60_000
    for other in ({}, {"clock": "another"}):
        memory.write_text(json.dumps(kept | other))
        again = broker.clock(memory=memory)
        again.read()
        assert 0 <= broker.now - again.now() <= 3


@pytest.mark.parametrize(
    "kept", ["", "[]", "{}", '{"boot": "one", "low": "x"}', '{"boot": "one", "at": 1}']
)
def test_a_damaged_memory_is_none(broker: Broker, memory: Path, kept: str) -> None:
    memory.parent.mkdir()
    memory.write_text(kept)
    broker.clock(memory=memory).read()
    assert '"boot": "one"' in memory.read_text()


def test_what_is_not_yet_over_was_kept_by_another_clock(broker: Broker, memory: Path) -> None:
    """A container may have a boot clock of its own."""
    broker.passes(HOUR)
    broker.clock(memory=memory).read()
    broker.boot_ms, broker.ahead_ms = 1_000, broker.ahead_ms + 12 * HOUR
    again = broker.clock(memory=memory)
    again.read()
    assert 0 <= broker.now - again.now() <= 3


def test_a_clock_that_is_set_bit_by_bit_has_stepped_as_well(
    broker: Broker, clock: BrokerClock
) -> None:
    def creeps() -> None:
        for _ in range(20):
            broker.passes(10_000)
            broker.ahead_ms += 0.9 * STEP_MS
            clock.read()

    with pytest.raises(ClockStepped) as stepped:
        creeps()
    told = float(str(stepped.value).partition("moved by ")[2].partition(" s")[0])
    assert told * 1000 > STEP_MS, "all of it, and not the last bit"
    assert broker.now - clock.now() < 2 * STEP_MS


def test_brokers_that_lead_in_turn_make_no_step(broker: Broker, clock: BrokerClock) -> None:
    for turn in range(40):
        broker.passes(10_000)
        broker.ahead_ms += 3_000 if turn % 2 else -3_000
        clock.read()
        assert abs(broker.now - clock.now()) <= 3_100


def test_the_stage_ends_with_what_its_clock_found(broker: Broker) -> None:
    """Found on the clock's own thread, raised on the stage's; the thread ends."""
    broker.kind = TIMESTAMP_CREATE_TIME
    clock = broker.clock()
    with clock, pytest.raises(ConfigError, match="LogAppendTime"):
        clock.awaited(lambda: False)
    assert not any(thread.name == "broker clock" for thread in threading.enumerate())


def test_a_stage_whose_clock_stepped_closes_its_state_and_processes_nothing(
    tmp_path: Path,
) -> None:
    def stepped() -> None:
        raise ClockStepped("moved")

    settings = Settings(bootstrap="127.0.0.1:1", data_dir=tmp_path)
    loop: Any = StageLoop(counting_stage(), counting_topology(), settings, threading.Event())
    done: list[str] = []
    loop._connect = lambda _: done.append("connected")
    loop._round = loop._stop.set
    loop._assignment = loop._source = SimpleNamespace(close=lambda: done.append("closed"))
    loop._clock = SimpleNamespace(check=stepped)
    with pytest.raises(ClockStepped):
        loop._serve({})
    assert done == ["connected", "closed", "closed"]
