"""The delivery stage while others come and go: its peers, its broker, receivers that are late."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.conditions import eventually
from support.delivery_processes import DeliveryProcesses, delivering
from support.kafka_under_test import KafkaUnderTest

from streams.broker.embedded import EmbeddedKafka

pytestmark = [pytest.mark.broker, pytest.mark.fault]

TENANTS = {0: "acme", 1: "globex"}
"""One tenant of each partition."""
ENDED = "tidegate_delivery_attempts_total"


@pytest.fixture
def stage(kafka: Any, tmp_path: Path) -> Iterator[DeliveryProcesses]:
    with delivering(kafka, tmp_path, partitions=2, tenants=list(TENANTS.values())) as made:
        yield made


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A broker of the test's own, to be killed."""
    with EmbeddedKafka(tmp_path / "kafka") as running:
        yield running


@pytest.fixture
def away(broker: EmbeddedKafka, tmp_path: Path) -> Iterator[DeliveryProcesses]:
    """The stage on that broker."""
    kafka = KafkaUnderTest(broker.bootstrap, broker.client_settings, broker)
    with delivering(kafka, tmp_path) as made:
        yield made


def kill(broker: EmbeddedKafka) -> None:
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGKILL)
    eventually(lambda: not broker.running, what="the broker is gone")


def test_an_attempt_moves_with_its_partition_and_the_others_go_on(
    stage: DeliveryProcesses,
) -> None:
    stage.receiver.answers = [0, 0]
    first = stage.start("0")
    events = {}
    for partition, tenant in TENANTS.items():
        assert stage.partition(tenant) == partition
        stage.endpoint(tenant, timeout_seconds=60)
        events[partition] = stage.event(tenant, tenant)
    eventually(lambda: len(stage.receiver.got) == 2, what="both attempts are under way")
    second = stage.start("1")
    eventually(lambda: len(first.share) == len(second.share) == 1, what="one partition each")
    (stayed,), (moved,) = first.share, second.share
    stage.row_of(events[moved], "delivered", TENANTS[moved])
    assert stage.receiver.ids.count(events[moved]) == 2
    assert stage.receiver.ids.count(events[stayed]) == 1
    stage.receiver.let_go.set()
    stage.row_of(events[stayed], "delivered", TENANTS[stayed])
    assert stage.receiver.ids.count(events[stayed]) == 1, "it was not disturbed"
    assert sorted(a.attempt for a in stage.attempts()) == [1, 1]
    for partition, tenant in TENANTS.items():
        later = stage.event(f"later-{partition}", tenant)
        stage.row_of(later, "delivered", tenant)


@pytest.mark.parametrize(
    ("session_seconds", "said", "most"),
    [
        pytest.param("300", "", 1, id="shorter than a transaction may last"),
        pytest.param("4", "producer is replaced", 2, id="longer", marks=pytest.mark.chaos),
    ],
)
def test_an_attempt_that_ends_while_the_broker_is_away_is_recorded_when_it_is_back(
    away: DeliveryProcesses, broker: EmbeddedKafka, session_seconds: str, said: str, most: int
) -> None:
    """After the longer outage another process may own the row, so the attempt is made again."""
    away.receiver.answers = [200, 0]
    process = away.start(TIDEGATE_SESSION_SECONDS=session_seconds)
    away.endpoint(timeout_seconds=60)
    away.row_of(away.event("before"), "delivered")
    event_id = away.event()
    eventually(lambda: away.receiver.ids[-1] == event_id, what="an attempt is under way")
    kill(broker)
    away.receiver.let_go.set()
    eventually(lambda: process.metric(ENDED) == 2, what="the stage knows its end")
    process.wait_for(said)
    broker.start()
    row = away.row_of(event_id, "delivered")
    assert row.attempts == 1
    assert 1 <= away.receiver.ids.count(event_id) <= most
    away.row_of(away.event("after"), "delivered")
    assert len(away.attempts()) == 3


def test_a_200_after_the_timeout_is_a_failure_and_the_message_is_sent_again(
    stage: DeliveryProcesses,
) -> None:
    stage.receiver.answers = [0]
    stage.start()
    stage.endpoint(retry=(1, 1))
    event_id = stage.event()
    (first,) = eventually(stage.attempts, what="the first attempt's end")
    assert (first.error, first.status, first.attempt) == ("timeout", None, 1)
    stage.receiver.let_go.set()
    row = stage.row_of(event_id, "delivered")
    assert (row.attempts, stage.receiver.ids) == (2, [event_id] * 2)
    assert [a.status for a in stage.attempts()] == [None, 200]
