"""The topics of a test. They are deleted at its end, so that the run's one broker stays small."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streams.kafka.admin import LeaderCachingAdmin
from streams.kafka.offsets import Place, latest, read_offsets
from support.conditions import PATIENCE_SECONDS, eventually
from support.kafka_under_test import KafkaUnderTest

_made: list[tuple[str, str]] = []
"""Address of the broker, and name."""


def create_topics(bootstrap: str, admin: LeaderCachingAdmin, topics: Iterable[NewTopic]) -> None:
    """Create topics of the present test; returns once every partition has its leader."""
    wanted = list(topics)
    asked = admin.create_topics(wanted)
    _made.extend((bootstrap, name) for name in asked)
    for future in asked.values():
        future.result(PATIENCE_SECONDS)
    places = [(topic.topic, number) for topic in wanted for number in range(topic.num_partitions)]
    eventually(lambda: led(admin, places), what="each partition has a leader")


def led(admin: LeaderCachingAdmin, places: Iterable[Place]) -> bool:
    """Whether each partition has a leader that knows of it already."""
    try:
        return bool(read_offsets(admin, "", places, latest(), 10))
    except KafkaException:
        return False


def delete_created(kafka: KafkaUnderTest) -> None:
    """Delete what is left of them; brokers of a test's own have ended with their topics."""
    names = [name for bootstrap, name in _made if bootstrap == kafka.bootstrap]
    _made.clear()
    if names:
        admin = AdminClient(kafka.client())  # without a name it would end before it has an answer
        for future in admin.delete_topics(names).values():
            future.exception(30)  # the test may have deleted it
