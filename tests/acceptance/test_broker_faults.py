"""The broker freezes or dies under dedup's load: it comes back, and dedup with it (G8)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conditions import eventually
from support.dedup_under_load import DedupUnderLoad
from support.fault_points import STEPS, ProcessPosition
from support.faulty_process import frozen
from support.kafka_under_test import KafkaUnderTest

from streams.broker.embedded import EmbeddedKafka

pytestmark = [pytest.mark.broker, pytest.mark.fault]

SILENT = "kafka does not answer"
UNCOMMITTED = STEPS[: STEPS.index("after_commit")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker of these tests' own."""
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def dedup(broker: EmbeddedKafka, tmp_path: Path) -> Iterator[DedupUnderLoad]:
    kafka = KafkaUnderTest(broker.bootstrap, broker.client_settings, broker)
    with DedupUnderLoad(kafka, tmp_path) as running:
        running.start()
        running.await_recovery("start")
        yield running


def freeze(broker: EmbeddedKafka, dedup: DedupUnderLoad) -> ProcessPosition:
    """SIGSTOP the broker while the stage is in a transaction, which so cannot end."""
    pid = broker.pid
    assert pid is not None

    def caught() -> ProcessPosition | None:
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: frozen(pid), what="the broker is frozen")
        place = dedup.processes[-1].points.now
        if place.in_flight and place.step in UNCOMMITTED:
            return place
        os.kill(pid, signal.SIGCONT)
        return None

    return eventually(caught, what="the broker is frozen with records in flight")


@pytest.mark.parametrize(
    "seconds", [5, *(pytest.param(s, marks=pytest.mark.chaos) for s in (40, 70))]
)
def test_a_frozen_broker(broker: EmbeddedKafka, dedup: DedupUnderLoad, seconds: int) -> None:
    landed = freeze(broker, dedup)
    dedup.flood.wait(seconds)
    os.kill(broker.pid or 0, signal.SIGCONT)
    dedup.await_recovery(f"broker frozen for {seconds} s {landed}")
    assert dedup.verdict() == []


@pytest.mark.chaos
def test_a_killed_broker(broker: EmbeddedKafka, dedup: DedupUnderLoad) -> None:
    landed = freeze(broker, dedup)
    broker.kill()
    broker.start()
    dedup.await_recovery(f"broker killed {landed}")
    assert dedup.processes[0].lines.count(SILENT) == 1
    assert dedup.verdict() == []
