"""Reads chunks of `payloads` by their offsets, from a thread of its own."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from streams.errors import PermanentError, TransientError
from streams.kafka import consumer_config
from streams.serde.records import PayloadRef
from streams.settings import Settings

_TOPIC = "payloads"
_FETCH_SECONDS = 30.0
_READ_AHEAD = 100
"""Records it rather reads past than seek over: jobs come in about the order of their events."""

_Request = tuple[PayloadRef, "Future[list[bytes]]"]
_GONE = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}


class PayloadReader:
    """One fetch at a time; those that wait together are answered in the order of the log."""

    def __init__(self, settings: Settings) -> None:
        self._topic = settings.topic_prefix + _TOPIC
        self._consumer = Consumer(
            consumer_config(
                settings,
                "payloads",
                **{
                    "auto.offset.reset": "error",
                    "fetch.wait.max.ms": 10,
                    # A few bodies at a time: most of what is fetched ahead is never asked for.
                    "fetch.message.max.bytes": 64 * 1024,
                    "queued.min.messages": 50,
                },
            )
        )
        self._position: tuple[int, int] | None = None
        self._requests: queue.SimpleQueue[_Request] = queue.SimpleQueue()

    def fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        """The sealed chunks of a raw body, in order."""
        future: Future[list[bytes]] = Future()
        self._requests.put((ref, future))
        return future

    def run(self, closed: threading.Event) -> None:
        """Answer until closed; the body of the reader's thread."""
        while not closed.is_set():
            for ref, future in self._waiting():
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    future.set_result([self._chunk(ref.partition, at) for at in ref.offsets])
                except Exception as error:
                    future.set_exception(error)
        self._consumer.close()

    def _waiting(self) -> list[_Request]:
        """All requests there are, in the order of the log: each jump costs milliseconds."""
        try:
            found = [self._requests.get(timeout=0.1)]
        except queue.Empty:
            return []
        while not self._requests.empty():
            found.append(self._requests.get())
        here = self._position[0] if self._position else 0
        return sorted(found, key=lambda r: (r[0].partition != here, r[0].partition, r[0].offsets))

    def _chunk(self, partition: int, offset: int) -> bytes:
        self._stand_before(partition, offset)
        deadline = time.monotonic() + _FETCH_SECONDS
        while time.monotonic() < deadline:
            message = self._consumer.poll(0.2)
            if message is None or (message.offset() or 0) < offset:
                continue
            error = message.error()
            if error is not None and error.code() not in _GONE:
                continue
            return self._value(message, partition, offset)
        self._position = None
        raise TransientError(f"payloads:{partition}:{offset} could not be read in time")

    def _stand_before(self, partition: int, offset: int) -> None:
        if self._position is not None:
            at, next_offset = self._position
            if at == partition and 0 <= offset - next_offset <= _READ_AHEAD:
                return
        self._consumer.assign([TopicPartition(self._topic, partition, offset)])

    def _value(self, message: Message, partition: int, offset: int) -> bytes:
        value = message.value()
        if message.error() or message.offset() != offset or not isinstance(value, bytes):
            self._position = None
            raise PermanentError(
                f"payloads:{partition}:{offset} is gone: it is older than the topic's retention, "
                "which topology.yaml sets"
            )
        self._position = partition, offset + 1
        return value
