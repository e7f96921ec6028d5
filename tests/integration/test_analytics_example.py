"""The example's own Faust table counts committed events, goes on after a restart, and is short."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.conditions import eventually, exit_code
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import make_event
from support.stage_process import Cluster

from streams.serde.codec import ENVELOPE
from streams.topology.load import load

pytestmark = [pytest.mark.broker, pytest.mark.long]

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples/analytics/app.py"


def test_the_example_has_about_twenty_lines() -> None:
    assert len([line for line in PROGRAM.read_text().splitlines() if line]) <= 20


@contextmanager
def example(cluster: Cluster, folder: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    environ = {**os.environ, **cluster.environ(folder), "PYTHONPATH": str(ROOT)}
    with log.open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, str(PROGRAM), "worker", "--without-web", "-l", "warn"],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd=folder,
        )
    try:
        yield running
    finally:
        running.kill()
        exit_code(running)
        print(log.read_text())


def test_the_example_counts_what_is_committed(kafka: KafkaUnderTest, tmp_path: Path) -> None:
    cluster = Cluster(kafka, load())
    cluster.create()
    producer = Producer(cluster.client(transactional_id=f"{cluster.prefix}t"))
    producer.init_transactions(30)

    def write(*keys: str, commit: bool) -> None:
        producer.begin_transaction()
        for key in keys:
            value = ENVELOPE.encode(make_event(key))
            producer.produce(f"{cluster.prefix}events", value, b"acme", 1, timestamp=at)
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)(30)

    at = int(time.time() * 1000)
    write("a", "b", commit=False)
    write("c", "d", commit=True)
    assert "acme: 3" not in counted(cluster, tmp_path, "acme: 2 paid")
    write("e", commit=True)
    assert "acme: 1" not in counted(cluster, tmp_path, "acme: 3 paid")


def counted(cluster: Cluster, folder: Path, wanted: str) -> str:
    """What the example prints until it has counted so many and is told to stop."""
    log = folder / wanted
    with example(cluster, folder, log) as running:
        eventually(lambda: wanted in log.read_text(), what=wanted)
        running.terminate()  # it commits what it counted
        assert exit_code(running) == 0
    return log.read_text()
