"""Transactions that nobody ends, and whether any of them still holds readers back."""

from __future__ import annotations

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition

from streams.kafka.admin import LeaderCachingAdmin
from streams.kafka.offsets import latest
from support.conditions import eventually

_SECONDS = 30


def open_transactions(bootstrap: str, topic: str, width: int, seconds: int) -> list[Producer]:
    """Producers that wrote a record each, to a partition each, and did not commit.

    The broker aborts their transactions after some seconds.
    """
    producers = [
        Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "transactional.id": f"{topic}-{index}",
                "transaction.timeout.ms": seconds * 1_000,
            }
        )
        for index in range(width)
    ]
    for producer in producers:
        producer.init_transactions(_SECONDS)
    for index, producer in enumerate(producers):
        producer.begin_transaction()
        producer.produce(topic, b"open", partition=index)
    assert [producer.flush(_SECONDS) for producer in producers] == [0] * width
    return producers


def open_partitions(bootstrap: str, topic: str, width: int) -> list[int] | None:
    """Partitions whose last stable offset is not their end; None while they are not all led."""
    admin = LeaderCachingAdmin({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = {TopicPartition(topic, p): latest() for p in range(width)}
    levels = (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
    try:
        ends, stable = (
            [
                answer.result(20).offset
                for answer in admin.list_offsets(asked, isolation_level=level).values()
            ]
            for level in levels
        )
    except KafkaException:
        return None
    return [p for p in range(width) if stable[p] < ends[p]]


def await_open(bootstrap: str, topic: str, width: int) -> None:
    """Until each partition is held back; followers may have a record a moment later."""
    everyone = list(range(width))
    eventually(lambda: open_partitions(bootstrap, topic, width) == everyone, what="all are open")


def await_none_open(bootstrap: str, topic: str, width: int) -> None:
    eventually(lambda: open_partitions(bootstrap, topic, width) == [], what="all are ended")
