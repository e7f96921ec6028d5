"""The consumer groups of a cluster, as its brokers list them.

Asking a group's coordinator by an admin client can abort the whole process (librdkafka#4605): a
broker that cannot be asked yet, or a connection that ends, is enough. A list needs no coordinator.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterable, Iterator

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupListing

from streams.kafka.failures import needing
from streams.kafka.offsets import Place

_STABLE = "Stable"
_TOPICS = struct.Struct(">hi")
"""The version of an assignment and the number of its topics."""


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


def owned_partitions(
    admin: AdminClient, group: str, topic: str, timeout: float
) -> frozenset[int] | None:
    """The topic's partitions that members of the group own; None while it rebalances.

    It waits for all brokers, and asks for no coordinator.

    Raises:
        KafkaException: a broker did not answer in time.
    """
    with warnings.catch_warnings():
        # Its successors ask the group's coordinator, which librdkafka may wait for in vain (#4605).
        warnings.simplefilter("ignore", DeprecationWarning)
        groups = admin.list_groups(group, timeout=timeout)
    for found in groups:
        if found.id == group and found.state == _STABLE:
            shares = [_assigned(member.assignment or b"", topic) for member in found.members]
            return frozenset(partition for share in shares for partition in share)
    return None


def _assigned(assignment: bytes, topic: str) -> Iterator[int]:
    """The topic's partitions in a member's assignment, as `ConsumerProtocolAssignment` has it."""
    at = _TOPICS.size
    topics = _TOPICS.unpack_from(assignment)[1] if assignment else 0
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", assignment, at)
        name, count = struct.unpack_from(f">{length}si", assignment, at + 2)
        at += 2 + length + 4
        if name == topic.encode():
            yield from struct.unpack_from(f">{count}i", assignment, at)
        at += 4 * count


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
