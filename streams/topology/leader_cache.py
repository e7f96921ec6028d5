"""An admin client that knows the leaders of partitions before it asks for their offsets."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

_PATIENCE_SECONDS = 5.0


class LeaderCachingAdmin(AdminClient):
    """Reads the cluster's metadata, and waits for it, before it asks a partition's new leader.

    Were librdkafka asked first, it would look for the leader; meanwhile the calling thread uses a
    question that librdkafka's own thread may answer and free at the same time. That ends the whole
    process by a signal, in `list_offsets`. It looks for no leader that its metadata names.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        super().__init__(dict(conf))
        self._led: set[tuple[str, int]] = set()

    def list_offsets(  # type: ignore[override]  # the library's own differs in the same way
        self, topic_partition_offsets: Mapping[TopicPartition, OffsetSpec], **kwargs: Any
    ) -> dict[TopicPartition, Future[Any]]:
        """The library's; if no broker names the leaders, each future holds that error."""
        asked = {(place.topic, place.partition) for place in topic_partition_offsets}
        if not asked <= self._led:
            try:
                self._read_leaders(kwargs.get("request_timeout", _PATIENCE_SECONDS))
            except KafkaException as error:
                return {place: _failed(error) for place in topic_partition_offsets}
        answers: dict[TopicPartition, Future[Any]] = super().list_offsets(
            dict(topic_partition_offsets), **kwargs
        )
        return answers

    def _read_leaders(self, timeout: float) -> None:
        self._led = {
            (name, number)
            for name, topic in self.list_topics(timeout=timeout).topics.items()
            for number, partition in topic.partitions.items()
            if partition.leader >= 0
        }


def _failed(error: KafkaException) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future
