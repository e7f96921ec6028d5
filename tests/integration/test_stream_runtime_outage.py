"""The stream runtime while its broker is away: it says so once, waits, and goes on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conditions import eventually
from support.counting import counting_topology
from support.kafka_under_test import KafkaUnderTest
from support.stage_process import Cluster, StageProcess, counting

from streams.broker.embedded import EmbeddedKafka
from streams.settings import load_settings

pytestmark = [pytest.mark.broker, pytest.mark.fault]

COUNT = (b"a", b"count")
SILENT = "kafka does not answer"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """A broker of the test's own, to be killed."""
    with EmbeddedKafka(tmp_path / "kafka") as running:
        yield running


@pytest.fixture
def cluster(broker: EmbeddedKafka) -> Cluster:
    kafka = KafkaUnderTest(broker.bootstrap, broker.client_settings, broker)
    return Cluster(kafka, counting_topology())


@pytest.fixture
def process(cluster: Cluster, tmp_path: Path) -> Iterator[StageProcess]:
    with counting(cluster, tmp_path) as running:
        yield running


def kill(broker: EmbeddedKafka) -> None:
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGKILL)
    eventually(lambda: not broker.running, what="the broker is gone")


def counted_exactly(cluster: Cluster, number: int) -> bool:
    return [int(value or b"") for _, value in cluster.pairs("out")] == list(range(1, number + 1))


def test_an_outage_longer_than_a_transaction_may_last_is_survived(
    cluster: Cluster, broker: EmbeddedKafka, process: StageProcess
) -> None:
    cluster.send("in", [COUNT] * 5)
    eventually(lambda: counted_exactly(cluster, 5), what="5 counts")
    process.signal(signal.SIGSTOP)
    cluster.send("in", [(b"a", b"count")] * 5)
    kill(broker)
    process.signal(signal.SIGCONT)
    process.wait_for(SILENT)
    past_timeout = load_settings().session_seconds + 2
    assert not threading.Event().wait(past_timeout), "longer than the transaction timeout"
    broker.start()
    eventually(lambda: counted_exactly(cluster, 10), what="it goes on by itself")
    assert process.stop() == 0


def test_a_stop_during_an_outage_is_heard(broker: EmbeddedKafka, process: StageProcess) -> None:
    kill(broker)
    process.wait_for(SILENT)
    assert process.stop() == 0


@pytest.mark.chaos
def test_a_process_without_partitions_is_ready_only_while_the_broker_answers(
    cluster: Cluster, broker: EmbeddedKafka, process: StageProcess, tmp_path: Path
) -> None:
    """It reads and commits nothing by which it would notice."""
    environs = [cluster.environ(tmp_path / "d", f"{n + 1}") for n in range(cluster.width("in"))]
    logs = (tmp_path / f"log{number}" for number in range(len(environs)))
    others = [StageProcess("counting_stage", *each) for each in zip(logs, environs, strict=True)]
    together = [process, *others]
    try:
        eventually(lambda: all(each.ready() for each in together), what="all are ready")
        kill(broker)
        eventually(lambda: not any(each.ready() for each in together), what="none is ready")
        broker.start()
        eventually(lambda: all(each.ready() for each in together), what="all are ready again")
    finally:
        for each in others:
            each.kill()
