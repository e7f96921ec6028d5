"""Reads the dispatcher's replies on the partitions that this worker has announced."""

from __future__ import annotations

import threading

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from streams.kafka import consumer_config
from streams.settings import Settings
from streams.worker.transport import Inbox, Incoming

log = structlog.get_logger(__name__)

_TOPIC = "jobs.replies"


class ReplyReader:
    """No group: it starts where the topic ends before the partition is announced.

    A partition once announced is read on after a rebalance, for replies still on their way.
    """

    def __init__(self, settings: Settings, inbox: Inbox) -> None:
        self._inbox = inbox
        self._topic = settings.topic_prefix + _TOPIC
        self._consumer = Consumer(consumer_config(settings, "worker-replies"))
        self._followed: set[int] = set()

    def follow(self, partition: int) -> bool:
        """Read a partition from its present end; False if the broker does not tell it now."""
        if partition in self._followed:
            return True
        try:
            _, end = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, partition), timeout=5
            )
            self._consumer.incremental_assign([TopicPartition(self._topic, partition, end)])
        except KafkaException as error:
            log.warning("cannot follow replies: trying on", partition=partition, error=str(error))
            return False
        self._followed.add(partition)
        return True

    def run(self, closed: threading.Event) -> None:
        """Read until closed; the body of the reader's thread."""
        while not closed.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error():
                continue
            key, value = message.key(), message.value()
            self._inbox.replied(
                Incoming(_TOPIC, message.partition() or 0, message.offset() or 0, key, value)
            )
        self._consumer.close()
