"""Partitions that are taken away during a commit: it stands, and who takes over sees it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.conditions import eventually
from support.counting import counting_stage, counting_topology
from support.stage_process import Cluster

from streams.kafka.clients import consumer_config, producer_config
from streams.kafka.failures import Outage
from streams.runtime.clock import SystemClock
from streams.runtime.processor import Record
from streams.runtime.source import Source
from streams.runtime.step import TransactionAborted
from streams.runtime.task import Task
from streams.runtime.topics import StageTopics
from streams.runtime.transaction import KafkaTransactions
from streams.settings import Settings, load_settings
from streams.state.key_value import KeyValueBackend
from streams.state.memory import MemoryTables

pytestmark = [pytest.mark.broker, pytest.mark.fault]

STAGE = counting_stage()
BOTH = frozenset({0, 1})
RECORDS = 20_000
"""By partition: more than are committed, one by one, until the heir is in the group."""


@pytest.fixture
def cluster(kafka: Any) -> Cluster:
    created = Cluster(kafka, counting_topology())
    created.create()
    for partition in BOTH:
        created.send("in", [(b"a", b"count")] * RECORDS, partition)
    return created


@pytest.fixture
def settings(cluster: Cluster, tmp_path: Path) -> Settings:
    quick = {"TIDEGATE_KAFKA_HEARTBEAT_INTERVAL_MS": "200"}
    return load_settings({**cluster.environ(tmp_path), **quick})


@pytest.fixture
def source(settings: Settings) -> Iterator[Source]:
    """It delivers both partitions from their beginning."""
    found = Source(STAGE.name, STAGE.inputs, settings, Outage(), lambda: None, lambda _: False)
    eventually(lambda: found.read(0.1) or found.partitions == BOTH, what="both assigned")
    found.start({("in", partition): 0 for partition in BOTH})
    yield found
    found.close()


@pytest.fixture
def heir(settings: Settings) -> Iterator[Consumer]:
    """Another process's consumer, which has yet to `subscribe`."""
    static = {
        "group.instance.id": f"{STAGE.name}-1",
        "partition.assignment.strategy": "cooperative-sticky",
    }
    found = Consumer(consumer_config(settings, STAGE.name, **static))
    yield found
    found.close()


def read_all(source: Source) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = defaultdict(list)

    def all_read() -> bool:
        for record in source.read(0.1):
            found[record.partition].append(record)
        return all(len(found[partition]) == RECORDS for partition in BOTH)

    eventually(all_read, what="all input read")
    return found


def task(partition: int) -> Task:
    backends = {"counts": KeyValueBackend(MemoryTables())}
    made = Task(STAGE, partition, backends, SystemClock(), lambda *_: True, {"in": 0})
    made.restored()
    return made


class Everything:
    """Topics of which none is missing."""

    def exists(self, topic: str, partition: int) -> bool:
        return True

    def doubt(self) -> None: ...


def transactions(source: Source, settings: Settings) -> KafkaTransactions:
    return KafkaTransactions(
        STAGE.name,
        f"{settings.topic_prefix}{STAGE.name}-0",
        settings.topic_prefix,
        producer_config(settings),
        settings.session_timeout_ms,
        source,
        cast(StageTopics, Everything()),
        Outage(),
        lambda: False,
    )


def committed(to: KafkaTransactions, tasks: list[Task]) -> bool:
    """False where the group is a generation ahead of its member's answer: to be done anew."""
    try:
        to.commit(tasks)
    except TransactionAborted as aborted:
        if "ILLEGAL_GENERATION" not in str(aborted):
            raise
        for task in tasks:
            task.rollback()
        return False
    return True


def assigned(heir: Consumer, source: Source) -> list[int]:
    """Its partitions; both must be polled for it to get any."""
    source.read(0)
    heir.poll(0.1)
    return [found.partition for found in heir.assignment()]


def counted(cluster: Cluster) -> dict[int, list[bytes | None]]:
    """What is committed to `out`, by partition."""
    found: dict[int, list[bytes | None]] = defaultdict(list)
    for message in cluster.read("out"):
        found[message.partition() or 0].append(message.value())
    return found


def test_a_commit_during_which_a_partition_is_taken_away_stands_and_none_comes_after_it(
    cluster: Cluster, settings: Settings, source: Source, heir: Consumer
) -> None:
    records, tasks = read_all(source), {partition: task(partition) for partition in BOTH}
    committing = transactions(source, settings)
    heir.subscribe([f"{cluster.prefix}in"])
    done = 0
    # Only commits read from here on: whatever is heard of a rebalance, a commit hears of it.
    while source.delivering == BOTH:
        assert done < RECORDS, "the heir did not join"
        for partition, each in tasks.items():
            each.process(records[partition][done : done + 1])
        done += committed(committing, list(tasks.values()))
        heir.poll(0)
    expected = [b"%d" % n for n in range(1, done + 1)]
    assert counted(cluster) == {0: expected, 1: expected}
    (kept,) = source.delivering
    (moved,) = BOTH - {kept}
    eventually(lambda: assigned(heir, source) == [moved], what="the heir has what was taken away")
    (told,) = heir.committed([TopicPartition(f"{cluster.prefix}in", moved)], 10)
    assert told.offset == done

    for partition, each in tasks.items():
        each.process(records[partition][done : done + 1])
    with pytest.raises(TransactionAborted, match="taken away"):
        committing.commit(list(tasks.values()))
    for each in tasks.values():
        each.rollback()
    tasks[kept].process(records[kept][done : done + 1])
    committing.commit([tasks[kept]])
    assert counted(cluster) == {kept: [*expected, b"%d" % (done + 1)], moved: expected}
