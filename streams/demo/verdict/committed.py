"""Reads topics from their first record to their last committed one."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Partition

from streams.kafka.admin import admin_client
from streams.kafka.clients import consumer_config
from streams.kafka.offsets import Place, latest, read_offsets
from streams.settings import Settings

_TIMEOUT = 10.0
_PAUSE_SECONDS = 0.2
_LEADERS_SECONDS = 30.0


class CommittedReader:
    """A read_committed consumer of every partition of some topics; it joins no group."""

    def __init__(self, settings: Settings, topics: Iterable[str]) -> None:
        self._prefix = settings.topic_prefix
        self._admin = admin_client(settings)
        config = consumer_config(settings, "demo-audit", **{"enable.partition.eof": True})
        self._consumer = Consumer(config)
        self._next: dict[Place, int] = {}
        for topic in topics:
            found = self._admin.list_topics(self._prefix + topic, timeout=_TIMEOUT)
            for partition in found.topics[self._prefix + topic].partitions:
                self._next[topic, partition] = 0
        self._consumer.assign([Partition(self._prefix + t, p, 0) for t, p in self._next])

    def read(self, timeout: float) -> list[Message]:
        """The next records; waits at most `timeout` seconds, and only while there are none.

        Raises:
            KafkaException: the broker refuses the read.
        """
        first = self._consumer.poll(timeout)
        if first is None:
            return []
        found = [first, *self._consumer.consume(2_000, 0)]
        return [message for message in found if self._note(message)]

    def ends(self) -> dict[Place, int]:
        """The current end offset of every partition, including open transactions.

        Raises:
            KafkaException: no answer within half a minute, which is enough to find new leaders.
        """
        deadline = time.monotonic() + _LEADERS_SECONDS
        while True:
            try:
                return read_offsets(self._admin, self._prefix, self._next, latest(), _TIMEOUT)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def reached(self, ends: dict[Place, int]) -> bool:
        """Whether everything before these offsets has been read."""
        return all(self._next[place] >= end for place, end in ends.items())

    def logical(self, topic: str | None) -> str:
        """A topic's name without the cluster's prefix."""
        return (topic or "").removeprefix(self._prefix)

    def close(self) -> None:
        self._consumer.close()

    def _note(self, message: Message) -> bool:
        """Note the position, which control records move too; returns whether it is a record."""
        error, place = message.error(), (self.logical(message.topic()), message.partition() or 0)
        if error is None:
            self._next[place] = (message.offset() or 0) + 1
            return True
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        self._next[place] = max(self._next[place], message.offset() or 0)
        return False
