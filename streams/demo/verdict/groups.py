"""Kafka's outside view of a stage: who owns which partition, and how far it committed."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupTopicPartitions

from streams.kafka.admin import admin_client
from streams.kafka.offsets import Place
from streams.settings import Settings

_TIMEOUT = 10.0


class Groups:
    """The consumer groups of the stages; a stage's name is its group."""

    def __init__(self, settings: Settings) -> None:
        self._prefix = settings.topic_prefix
        self._admin = admin_client(settings)

    def owners(self, stage: str) -> dict[int, str]:
        """The owning process (`dedup-0`) by partition number."""
        group = self._prefix + stage
        found = self._admin.describe_consumer_groups([group], request_timeout=_TIMEOUT)
        return {
            place.partition: member.group_instance_id
            for member in found[group].result(_TIMEOUT).members
            for place in member.assignment.topic_partitions
        }

    def committed(self, stage: str) -> dict[Place, int]:
        """The next offset that the stage will read, for each input partition it has committed."""
        asked = [ConsumerGroupTopicPartitions(self._prefix + stage)]
        (answer,) = self._admin.list_consumer_group_offsets(asked).values()
        return {
            (place.topic.removeprefix(self._prefix), place.partition): place.offset
            for place in answer.result(_TIMEOUT).topic_partitions or ()
        }
