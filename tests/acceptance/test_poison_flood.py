"""Poison among the flood: each record of it leaves one dead letter, all else goes on once."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from support.conditions import eventually
from support.dedup_under_load import DedupUnderLoad
from support.flood import delivery
from support.kafka_under_test import KafkaUnderTest

from streams.serde.codec import COMMAND, DEAD_LETTER, ENVELOPE
from streams.serde.records import Cancel, Command

pytestmark = [pytest.mark.broker, pytest.mark.fault]

PARTITIONS = range(4)
LARGEST = 1_900_000
"""Below what the topic takes, above what a stage's producer sends."""


def poison() -> dict[str, tuple[bytes | None, bytes | None, str]]:
    """By name: key, value, and the reason of its dead letter."""
    good = ENVELOPE.encode(delivery(1_000_000_007))
    command = COMMAND.encode(Command("c" * 40, "acme", "job_1", 0, 1, Cancel("asked", None)))
    return {
        "no value": (b"tnt", None, "undecodable"),
        "empty": (b"tnt", b"", "undecodable"),
        "cut within the fingerprint": (b"tnt", good[:17], "undecodable"),
        "another schema": (b"tnt", command, "undecodable"),
        "unknown schema": (b"tnt", b"\0\0\0\xff\xff" + good[5:], "undecodable"),
        "giant key": (b"k" * LARGEST, good, "output_refused"),
        "giant value": (b"tnt", good + b"v" * LARGEST, "output_refused"),
    }


def test_each_poison_record_leaves_one_dead_letter(
    kafka: KafkaUnderTest, dedup: DedupUnderLoad
) -> None:
    dedup.start()
    dedup.await_recovery("start")
    sender = Producer({**kafka.client(), "message.max.bytes": 2 * LARGEST, "log_level": 0})
    topic = dedup.cluster.prefix + "events.received"
    sent: dict[str, str] = {}
    for name, (key, value, reason) in poison().items():
        partition = dedup.random.choice(PARTITIONS)
        sender.produce(
            topic,
            value,
            key,
            partition,
            on_delivery=lambda error, m: sent.update(  # flushed before the next
                {f"dedup:events.received:{m.partition()}:{m.offset()}": reason}  # noqa: B023
            ),
        )
        assert sender.flush(30) == 0, name
        eventually(lambda: len(letters(dedup)) == len(sent), what=f"a dead letter for {name}")
        dedup.await_recovery(name)
    assert letters(dedup) == sorted(sent.items())
    assert [(v.what, v.number) for v in dedup.verdict()] == [("dead_letter", len(sent))]


def letters(dedup: DedupUnderLoad) -> list[tuple[str, str]]:
    """The id and reason of each dead letter."""
    found = (DEAD_LETTER.decode(message.value()) for message in dedup.cluster.read("dlq"))
    return sorted((letter.id, letter.reason) for letter in found)
