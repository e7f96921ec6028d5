"""The broker's time: what a reading says, what drifts, what is waited for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    KafkaError,
)
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from structlog.testing import capture_logs
from support.moved_clocks import HOUR, Broker

from streams import ledger
from streams.errors import ConfigError, TidegateError
from streams.runtime import broker_clock
from streams.runtime.broker_clock import STEP_MS, BrokerClock
from streams.runtime.broker_clock_estimate import DRIFT, Estimate, Reading


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def clock(broker: Broker) -> BrokerClock:
    found = broker.clock("t-clock")
    found.read()
    return found


def test_the_time_is_the_brokers_less_at_most_a_round_trip(
    broker: Broker, clock: BrokerClock
) -> None:
    assert broker.produced == ["t-clock"]
    assert 0 <= broker.now - clock.now() <= 2 + 1


@pytest.mark.parametrize("step", [-12 * HOUR, 12 * HOUR])
def test_a_step_of_the_wall_clock_changes_nothing(
    broker: Broker, clock: BrokerClock, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = time.time()
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: wall + step / 1000)
    monkeypatch.setattr(time, "time_ns", lambda: int(wall * 1e9) + step * 1_000_000)
    assert clock.now() == before
    broker.passes(10_000)
    clock.read()
    assert 0 <= broker.now - clock.now() <= 3
    clock.check()


def test_a_suspended_machine_finds_the_time_as_it_is(broker: Broker, clock: BrokerClock) -> None:
    """The boot clock goes on meanwhile; the next reading agrees with it."""
    broker.passes(8 * HOUR)
    assert 0 <= broker.now - clock.now() <= 8 * HOUR * DRIFT + 3
    clock.read()
    assert 0 <= broker.now - clock.now() <= 3


def test_while_the_broker_is_away_the_time_goes_on(broker: Broker, clock: BrokerClock) -> None:
    broker.refusal = KafkaError(KafkaError._MSG_TIMED_OUT)
    before = clock.now()
    for _ in range(6):
        broker.passes(10_000)
        clock.read()
    assert 60_000 * (1 - DRIFT) - 1 <= clock.now() - before <= 60_000 + 12
    clock.check()


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Where a process keeps what it knows of the time, on a machine that names its boots."""
    (tmp_path / "boot_id").write_text("one\n")
    return tmp_path / "state" / "clock"


@pytest.mark.parametrize("ppm", [-400, -50, 50, 400])
def test_drift_is_followed(broker: Broker, clock: BrokerClock, ppm: int) -> None:
    for _ in range(10_000):
        broker.passes(10_000)
        broker.ahead_ms += 10_000 * ppm / 1e6
        clock.read()
        assert 0 <= broker.now - clock.now() <= 3 + 10_000 * DRIFT


def test_a_correction_back_is_waited_out(broker: Broker, clock: BrokerClock) -> None:
    before = clock.now()
    broker.ahead_ms -= 800
    clock.read()
    assert clock.now() == before, "it ran backwards"
    broker.passes(700)
    assert clock.now() == before, "it ran on before the broker's time was reached"
    broker.passes(200)
    assert before < clock.now() <= broker.now


def test_a_slow_answer_is_not_believed(broker: Broker, clock: BrokerClock) -> None:
    broker.passes(10_000)
    broker.back = 5_001
    with capture_logs() as logs:
        clock.read()
    assert 0 <= broker.now - clock.now() <= 15_003 * DRIFT + 3
    assert logs == []


def test_a_slow_answer_is_not_believed_at_the_start_either(broker: Broker) -> None:
    broker.back = 5_001
    clock = broker.clock()
    clock.read()
    with pytest.raises(TidegateError, match="not known yet"):
        clock.now()


def test_of_two_answers_the_quicker_one_decides(broker: Broker) -> None:
    broker.there, broker.back = 40, 2_000
    clock = broker.clock()
    clock.read()
    assert 2_000 <= broker.now - clock.now() <= 2_001
    broker.back = 1
    clock.read()
    assert 0 <= broker.now - clock.now() <= 3
    broker.there, broker.back = 40, 2_000
    clock.read()
    assert 0 <= broker.now - clock.now() <= 5


@given(
    steps=st.lists(
        st.tuples(
            st.floats(0, 600_000),  # ms that pass
            st.floats(-DRIFT / 2, DRIFT / 2),  # drift meanwhile
            st.floats(-400, 400),  # a correction of the broker's clock, in ms
            st.floats(0, 3_000),  # to the broker
            st.floats(0, 3_000),  # and back
        ),
        max_size=20,
    )
)
def test_it_never_runs_backwards_whatever_the_broker_says(
    steps: list[tuple[float, float, float, float, float]],
) -> None:
    """Nor is it ahead of the broker by more than the broker's clock was ever put back."""
    broker = Broker()
    clock = broker.clock()
    clock.read()
    latest, put_back = clock.now(), 0.0
    for passed, drift, correction, broker.there, broker.back in steps:
        broker.passes(passed)
        broker.ahead_ms += passed * drift + correction
        put_back += max(0.0, -correction)
        for reads in range(2):
            if reads:
                clock.read()
            assert latest <= clock.now() <= broker.now + put_back
            latest = clock.now()


@given(
    readings=st.lists(
        st.tuples(st.floats(0, 60_000), st.floats(-DRIFT, DRIFT), st.floats(0, 4_000)), max_size=30
    )
)
def test_a_broker_that_only_drifts_is_never_overtaken_and_never_suspected(
    readings: list[tuple[float, float, float]],
) -> None:
    broker = Broker()
    clock = broker.clock()
    clock.read()
    for passed, drift, broker.back in readings:
        broker.passes(passed)
        broker.ahead_ms += passed * drift
        assert clock.now() <= broker.now
        clock.read()
        assert clock.now() <= broker.now
        assert broker.now - clock.now() <= 4_003 + 64_000 * DRIFT * 2


def test_without_a_reading_there_is_no_time(broker: Broker) -> None:
    clock = broker.clock()
    with pytest.raises(TidegateError, match="not known yet"):
        clock.now()


def test_a_topic_without_append_times_is_refused(broker: Broker) -> None:
    broker.kind = TIMESTAMP_CREATE_TIME
    clock = broker.clock()
    with pytest.raises(ConfigError, match=r"LogAppendTime\. Run `tidegate topology apply`"):
        clock.read()


@pytest.mark.parametrize("code", [KafkaError._MSG_TIMED_OUT, KafkaError._QUEUE_FULL])
def test_a_broker_that_is_not_heard_is_told_once_and_waited_for(
    broker: Broker, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_clock, "_RETRY_SECONDS", 0.001)
    broker.refusal = KafkaError(code)
    asked = []

    def pause() -> bool:
        asked.append(True)
        if len(asked) == 5:
            broker.refusal = None
        time.sleep(0.001)
        return False

    with (
        capture_logs() as logs,
        broker.clock() as clock,
    ):
        assert clock.awaited(pause)
        assert clock.now() <= broker.now
    assert [line["event"] for line in logs] == ["the broker's time cannot be read: trying on"]


def test_the_wait_for_the_first_reading_can_be_given_up(broker: Broker) -> None:
    broker.refusal = KafkaError(KafkaError._MSG_TIMED_OUT)
    with broker.clock() as clock:
        assert not clock.awaited(lambda: True)


def test_a_wall_clock_that_is_off_is_shown(
    broker: Broker, clock: BrokerClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: broker.now / 1000 + 43_200)
    clock.read()
    shown = REGISTRY.get_sample_value(
        "tidegate_stage_wall_clock_ahead_seconds", {"stage": "counting"}
    )
    assert shown == pytest.approx(43_200, abs=0.1)


def test_what_the_clock_lets_pass_is_within_the_margin_of_the_ledgers_keys() -> None:
    assert STEP_MS + broker_clock._PATIENCE_MS < ledger._KEY_MARGIN_MS / 2


def test_two_readings_bound_the_time_together() -> None:
    early = Reading(sent=0, answered=100, appended=1_090)  # 990 to 1091 ahead
    late = Reading(sent=100, answered=200, appended=1_110)  # 910 to 1011 ahead
    both = Estimate.first(early).after(late)
    assert (both.low, both.high) == pytest.approx((990, 1_011), abs=0.1)
