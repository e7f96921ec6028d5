"""Reads the dispatcher's replies on the partitions that this worker has announced."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from contextlib import suppress

import structlog
from confluent_kafka import KafkaException

from streams.kafka.tail import Fault, Tail
from streams.settings import Settings
from streams.worker.transport.contract import Inbox
from streams.worker.transport.messages import incoming

log = structlog.get_logger(__name__)

_TOPIC = "jobs.replies"
_BATCH = 1_000
_TIMEOUT_SECONDS = 5.0
_LEADERS_SECONDS = 2.0


class ReplyReader:
    """Reads each partition from its end at the time just before it is announced.

    It still reads an announced partition after a rebalance, because replies may be on their way.
    """

    def __init__(self, settings: Settings, group: str, inbox: Inbox) -> None:
        self._inbox = inbox
        self._tail = Tail(settings, group, tell=_tell)
        self._asked: queue.SimpleQueue[tuple[int, Future[bool]]] = queue.SimpleQueue()

    def follow(self, partition: int) -> bool:
        """Read a partition from its present end; return False if the broker does not answer now.

        The reader's thread asks for the end: while it polls, a second thread would wait for ever
        for the answer.
        """
        if (_TOPIC, partition) in self._tail.next:
            return True
        answer: Future[bool] = Future()
        self._asked.put((partition, answer))
        try:
            return answer.result(2 * _TIMEOUT_SECONDS)
        except TimeoutError:
            return False

    def run(self, closed: threading.Event) -> None:
        """Read until closed; the body of the reader's thread."""
        with self._tail:
            while not closed.is_set():
                if not self._asked.empty():
                    partition, answer = self._asked.get()
                    answer.set_result(self._begin(partition))
                self._read()

    def _read(self) -> None:
        """Pass on all that waits: the next question may take seconds."""
        messages = self._tail.read(_BATCH, 0.1)
        while messages:
            for message in messages:
                self._inbox.replied(incoming(message, _TOPIC))
            messages = self._tail.read(_BATCH, 0)

    def _begin(self, partition: int) -> bool:
        place = _TOPIC, partition
        if place in self._tail.next:
            return True
        try:
            self._tail.begin_at_end([place], _TIMEOUT_SECONDS)
        except KafkaException as error:
            log.warning("cannot follow replies: trying on", partition=partition, error=str(error))
            self._read_leaders()
            return False
        return True

    def _read_leaders(self) -> None:
        """Have librdkafka forget a leader that hangs.

        It asks again by itself for the leaders of partitions that it reads. It reads none at first,
        and would ask the leader that it knows for a quarter of an hour.
        """
        with suppress(KafkaException):
            self._tail.widths(_LEADERS_SECONDS)


def _tell(fault: Fault) -> None:
    log.warning("cannot read replies: trying on", error=fault.text)
