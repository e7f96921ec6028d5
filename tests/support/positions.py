"""The positions of a group that nobody has joined."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from support.conditions import eventually


def set_positions(client: Consumer, places: Sequence[TopicPartition]) -> None:
    """Commit positions of the client's group, once its coordinator takes them.

    A busy broker answers "not coordinator" until it has loaded the group's partition, and a
    synchronous commit of librdkafka ends with that error.
    """
    eventually(lambda: _committed(client, places), what=f"committed: {places}")


def _committed(client: Consumer, places: Sequence[TopicPartition]) -> bool:
    try:
        answered = client.commit(offsets=list(places), asynchronous=False) or ()
    except KafkaException:
        return False
    return all(place.error is None for place in answered)
