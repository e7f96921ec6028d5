"""A transaction that its producer never ends: the stage waits behind it, and says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from support.conditions import eventually
from support.counting import counting_topology
from support.stage_process import QUIET, Cluster, StageProcess, counting

pytestmark = [pytest.mark.broker, pytest.mark.fault]

COUNT = (b"a", b"count")
BLOCKED = "input is blocked"


@pytest.fixture
def cluster(kafka: Any) -> Cluster:
    return Cluster(kafka, counting_topology())


@pytest.fixture
def process(cluster: Cluster, tmp_path: Path) -> Iterator[StageProcess]:
    with counting(cluster, tmp_path) as running:
        yield running


def foreign(kafka: Any, cluster: Cluster) -> Producer:
    """A producer of somebody else's, whose transactions may last for minutes."""
    settings = {**kafka.client(transactional_id=f"{cluster.prefix}foreign"), **QUIET}
    producer = Producer({**settings, "transaction.timeout.ms": 600_000})
    producer.init_transactions(30)
    return producer


def leave_open(producer: Producer, topic: str, partition: int = 0) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"count", b"foreign", partition)
    assert producer.flush(30) == 0


def blocked_seconds(process: StageProcess) -> float:
    return process.metric("tidegate_stage_blocked_seconds")


def test_a_stage_behind_an_open_transaction_shows_it_and_goes_on_when_it_ends(
    kafka: Any, cluster: Cluster, process: StageProcess
) -> None:
    cluster.send("in", [COUNT])
    eventually(lambda: len(cluster.pairs("out")) == 1, what="the first is counted")
    leave_open(foreign(kafka, cluster), cluster.prefix + "in")
    cluster.send("in", [COUNT])
    eventually(lambda: blocked_seconds(process) > 0, what="the gauge counts")
    assert len(cluster.pairs("out")) == 1, "it read past an open transaction"
    cluster.send("in", [COUNT], partition=1)
    eventually(lambda: len(cluster.pairs("out")) == 2, what="the other partition goes on")
    foreign(kafka, cluster)  # under the same name: the former's transaction is aborted
    eventually(lambda: len(cluster.pairs("out")) == 3, what="it goes on")
    assert (b"foreign", b"1") not in cluster.pairs("out")
    eventually(lambda: blocked_seconds(process) == 0, what="the gauge falls back")


@pytest.mark.chaos
def test_who_blocks_an_input_for_long_is_told_of_once(
    kafka: Any, cluster: Cluster, process: StageProcess
) -> None:
    producer = foreign(kafka, cluster)
    leave_open(producer, cluster.prefix + "in", partition=1)
    cluster.send("in", [COUNT], partition=1)
    process.wait_for(BLOCKED)
    eventually(lambda: blocked_seconds(process) > 36, what="some more looks")
    (line,) = (json.loads(line) for line in process.lines.splitlines() if BLOCKED in line)
    assert (line["topic"], line["partition"], line["offset"]) == (cluster.prefix + "in", 1, 0)
    producer.commit_transaction(30)
    process.wait_for("input goes on")
    eventually(lambda: len(cluster.pairs("out")) == 2, what="both records are counted")
