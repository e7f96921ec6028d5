"""The consumer groups of a cluster, as its brokers list them.

Asking a group's coordinator by an admin client can abort the whole process (librdkafka#4605): a
broker that cannot be asked yet, or a connection that ends, is enough. A list needs no coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupListing

from streams.kafka.failures import needing
from streams.kafka.offsets import Place


def listed_groups(admin: AdminClient, timeout: float) -> list[ConsumerGroupListing]:
    """All groups that the user may see, within so many seconds.

    Raises:
        KafkaException: a broker did not list its groups.
    """
    listed = admin.list_consumer_groups(request_timeout=timeout).result()
    if listed.errors:
        # They are no exceptions, yet Python raises them: no `except` would catch one.
        raise KafkaException(listed.errors[0])
    return list(listed.valid)


def committed_positions(
    reader: Consumer, group: str, prefix: str, places: Iterable[Place], timeout: float
) -> dict[Place, int]:
    """The offsets of a reader's group, where it has any; waits for pending transactions (KIP-447).

    Raises:
        KafkaException: not answered in time, or not for one of the places.
    """
    asked = [TopicPartition(prefix + topic, p) for topic, p in places]
    with needing(f"Describe on group {group}"):
        answered = reader.committed(asked, timeout)
    raise_first(answered)
    return {
        (place.topic.removeprefix(prefix), place.partition): place.offset
        for place in answered
        if place.offset >= 0
    }


def raise_first(places: Iterable[TopicPartition]) -> None:
    """Raise the first error of a place; who may read its topic may have positions in it."""
    for place in places:
        if place.error:
            with needing(f"Read on topic {place.topic}"):
                raise KafkaException(place.error)
