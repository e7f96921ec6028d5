"""The topics of a test. They are deleted at its end, so that the run's one broker stays small."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from support.kafka_under_test import KafkaUnderTest

_made: list[tuple[str, str]] = []
"""Address of the broker, and name."""


def create_topics(bootstrap: str, admin: AdminClient, topics: Iterable[NewTopic]) -> None:
    """Create topics of the present test; returns once the broker has all of them."""
    asked = admin.create_topics(list(topics))
    _made.extend((bootstrap, name) for name in asked)
    for future in asked.values():
        future.result(30)


def delete_created(kafka: KafkaUnderTest) -> None:
    """Delete what is left of them; brokers of a test's own have ended with their topics."""
    names = [name for bootstrap, name in _made if bootstrap == kafka.bootstrap]
    _made.clear()
    if names:
        admin = AdminClient(kafka.client())  # without a name it would end before it has an answer
        for future in admin.delete_topics(names).values():
            future.exception(30)  # the test may have deleted it
