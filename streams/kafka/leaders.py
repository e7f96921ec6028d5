"""The leaders of the newest metadata, and for how long it may be believed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import OFFSET_END, KafkaError, TopicPartition
from confluent_kafka.admin import ClusterMetadata

_BELIEVED_SECONDS = 2.0
_CACHED_SECONDS = 8.0
"""How long librdkafka surely has it, unless an answer raised a doubt."""


class Leaders:
    """Which partitions have a leader; safe in threads, of which one learns at a time.

    `doubts` counts the answers that failed: librdkafka may have dropped a leader since.
    """

    def __init__(self) -> None:
        self.doubts = 0
        self._led: Mapping[tuple[str, int], bool] = {}
        self._topics: frozenset[str] = frozenset()
        self._refused: Mapping[str, KafkaError] = {}
        self._read_at = float("-inf")
        self._read_doubts = 0

    def known(self, places: Iterable[TopicPartition]) -> bool:
        """Whether the metadata is new, and has the topics of these partitions."""
        return self._told(places, _BELIEVED_SECONDS)

    def cached(self, places: Iterable[TopicPartition]) -> bool:
        """Whether librdkafka still has the metadata, though it may be out of date."""
        return self._told(places, _CACHED_SECONDS)

    def error(self, place: TopicPartition) -> KafkaError | None:
        """Why a partition cannot be asked; None if it has a leader."""
        led = self._led.get((place.topic, place.partition))
        if led:
            return None
        unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        refused = self._refused.get(place.topic, unknown)
        return refused if led is None else KafkaError(KafkaError.LEADER_NOT_AVAILABLE)

    def learn(
        self, metadata: ClusterMetadata, refused: Mapping[str, KafkaError], at: float, doubts: int
    ) -> None:
        """Believe metadata that was asked for `at` this time, after so many doubts.

        `refused` has the errors of topics that it does not list.
        """
        self._topics, self._refused = frozenset(metadata.topics), refused
        self._led = {
            (name, number): partition.leader in metadata.brokers
            for name, topic in metadata.topics.items()
            for number, partition in topic.partitions.items()
        }
        self._read_at, self._read_doubts = at, doubts

    def judge(self, answer: Future[Any]) -> None:
        """Doubt the metadata if a question failed."""
        if answer.exception() is not None or answer.result().offset < OFFSET_END:
            self.doubts += 1

    def _told(self, places: Iterable[TopicPartition], seconds: float) -> bool:
        believed = self._read_doubts == self.doubts and time.monotonic() < self._read_at + seconds
        return believed and all(place.topic in self._topics for place in places)
