"""Reads the dispatcher's replies on the partitions that this worker has announced."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from contextlib import suppress

import structlog
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from streams.kafka.clients import consumer_config
from streams.kafka.failures import is_fatal
from streams.settings import Settings
from streams.worker.transport.contract import Inbox
from streams.worker.transport.messages import incoming

log = structlog.get_logger(__name__)

_TOPIC = "jobs.replies"
_TIMEOUT_SECONDS = 5.0
_LEADERS_SECONDS = 2.0


class ReplyReader:
    """Reads each partition from its end at the time just before it is announced.

    It still reads an announced partition after a rebalance, because replies may be on their way.
    """

    def __init__(self, settings: Settings, group: str, inbox: Inbox) -> None:
        self._inbox = inbox
        self._topic = settings.topic_prefix + _TOPIC
        self._consumer = Consumer(consumer_config(settings, group))
        self._followed: set[int] = set()
        self._said: set[str] = set()
        self._asked: queue.SimpleQueue[tuple[int, Future[bool]]] = queue.SimpleQueue()

    def follow(self, partition: int) -> bool:
        """Read a partition from its present end; return False if the broker does not answer now.

        The reader's thread asks for the end: while it polls, a second thread would wait for ever
        for the answer.
        """
        if partition in self._followed:
            return True
        answer: Future[bool] = Future()
        self._asked.put((partition, answer))
        try:
            return answer.result(2 * _TIMEOUT_SECONDS)
        except TimeoutError:
            return False

    def run(self, closed: threading.Event) -> None:
        """Read until closed; the body of the reader's thread."""
        try:
            while not closed.is_set():
                if not self._asked.empty():
                    partition, answer = self._asked.get()
                    answer.set_result(self._begin(partition))
                self._read()
        finally:
            self._consumer.close()

    def _read(self) -> None:
        """Pass on all that waits: the next question may take seconds."""
        message = self._consumer.poll(0.1)
        while message is not None:
            if self._sound(message):
                self._inbox.replied(incoming(message, _TOPIC))
            message = self._consumer.poll(0)

    def _sound(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            self._said.clear()
            return True
        if is_fatal(error):
            raise KafkaException(error)
        if error.name() not in self._said:
            self._said.add(error.name())
            log.warning("cannot read replies: trying on", error=error.str())
        return False

    def _begin(self, partition: int) -> bool:
        if partition in self._followed:
            return True
        place = TopicPartition(self._topic, partition)
        try:
            _, place.offset = self._consumer.get_watermark_offsets(place, _TIMEOUT_SECONDS)
            self._consumer.incremental_assign([place])
        except KafkaException as error:
            log.warning("cannot follow replies: trying on", partition=partition, error=str(error))
            self._read_leaders()
            return False
        self._followed.add(partition)
        return True

    def _read_leaders(self) -> None:
        """Have librdkafka forget a leader that hangs.

        It asks again by itself for the leaders of partitions that it reads. It reads none at first,
        and would ask the leader that it knows for a quarter of an hour.
        """
        with suppress(KafkaException):
            self._consumer.list_topics(self._topic, _LEADERS_SECONDS)
