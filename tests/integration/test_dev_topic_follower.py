"""The lines of `tidegate dev` for records: what was written before the stop is shown before it."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import make_quarantined
from support.topics import create_topics

from streams.dev.console import topic_follower
from streams.dev.console.screen import Line
from streams.dev.console.topic_follower import TopicFollower
from streams.kafka.admin import LeaderCachingAdmin
from streams.serde.codec import QUARANTINED
from streams.serde.records import PayloadRef
from streams.settings import Settings


def test_what_was_written_before_the_stop_is_shown_though_the_reader_rests(
    kafka: KafkaUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_follower, "PEOPLES_SECONDS", 3600.0)
    prefix, shown = f"t{uuid.uuid4().hex[:8]}.", list[Line]()
    settings = Settings(bootstrap=kafka.bootstrap, topic_prefix=prefix, kafka=kafka.client_settings)
    topic = f"{prefix}quarantine"
    create_topics(kafka.bootstrap, LeaderCachingAdmin(kafka.client()), [NewTopic(topic, 4, 1)])
    producer = Producer(kafka.client())

    def write(tenant: str, partition: int) -> None:
        body = make_quarantined(b"{}", PayloadRef(0, (1,), 2, "dk_1"), tenant)
        producer.produce(topic, QUARANTINED.encode(body), partition=partition)
        producer.flush()

    follower = TopicFollower(settings, ["quarantine"], shown.append)
    follower.start()
    write("first", 0)
    eventually(lambda: shown, what="the first line, after which it rests")
    write("second", 0)
    write("third", 3)
    follower.stop()
    tenants = [line.text.split()[1].partition("/")[0] for line in shown]
    assert sorted(tenants) == ["first", "second", "third"]
