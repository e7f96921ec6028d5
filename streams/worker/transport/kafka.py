"""The transport over Kafka: a producer, and a thread for each reader."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.errors import Fenced, KafkaUnavailable
from streams.kafka.clients import producer_config
from streams.kafka.failures import is_fatal, not_sent
from streams.kafka.payload_reader import PayloadReader
from streams.process.daemon_thread import DaemonThread
from streams.serde.records import PayloadRef
from streams.settings import Settings
from streams.worker.transport.contract import Done, Inbox
from streams.worker.transport.reply_reader import ReplyReader
from streams.worker.transport.work_reader import WorkReader
from streams.worker.worker import WorkerSpec

log = structlog.get_logger(__name__)

_SEND_TIMEOUT_MS = 10_000
"""A send counts as failed after this time, and is repeated under the same id if still useful."""


class KafkaTransport:
    """Threads: `sender` runs the producer's callbacks, the readers call the inbox.

    `width` is the number of the pool's work partitions.

    An error that a thread cannot recover from ends the process; a new one starts with new clients.
    """

    def __init__(self, settings: Settings, place: WorkerSpec, width: int) -> None:
        self._settings = settings
        self._place = place
        self._width = width
        self._inbox: Inbox | None = None
        self._producer = Producer(
            producer_config(
                settings,
                **{
                    "linger.ms": 1,
                    "message.timeout.ms": _SEND_TIMEOUT_MS,
                    "error_cb": self._end_if_fatal,
                },
            )
        )
        self._closed = threading.Event()
        self._payloads = PayloadReader(settings, place.group)
        self._threads: list[DaemonThread] = []

    def start(self, inbox: Inbox) -> None:
        self._inbox = inbox
        replies = ReplyReader(self._settings, self._place.group, inbox)
        work = WorkReader(self._settings, self._place, self._width, inbox, replies)
        for reader in (self._payloads, replies, work):
            body = partial(reader.run, self._closed)
            self._threads.append(DaemonThread(type(reader).__name__, body, self._thread_failed))
        self._threads.append(DaemonThread("sender", self._send_callbacks, self._thread_failed))
        for thread in self._threads:
            thread.start()

    def send(self, topic: str, key: bytes, value: bytes, *, partition: int, done: Done) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error:
                self._end_if_fatal(error)
            done(not_sent(topic, error) if error else None)

        try:
            self._producer.produce(
                self._settings.topic_prefix + topic, value, key, partition, on_delivery=delivered
            )
        except BufferError as error:
            done(KafkaUnavailable(f"{topic}: {error}"))
        except KafkaException as error:
            self._end_if_fatal(error.args[0])
            done(not_sent(topic, error.args[0]))

    def fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        return self._payloads.fetch(ref)

    def close(self) -> None:
        self._producer.flush(5)
        self._closed.set()
        for thread in self._threads:
            thread.stop(5)

    def _send_callbacks(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(0.1)

    def _end_if_fatal(self, error: KafkaError) -> None:
        if is_fatal(error):
            self._fail(
                Fenced(
                    f"the worker's producer cannot go on ({error.str()}): the process ends, and "
                    "whoever started it starts it again"
                )
            )

    def _thread_failed(self, error: Exception) -> None:
        log.exception("a thread of the worker ended", thread=threading.current_thread().name)
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._inbox is not None:
            self._inbox.failed(error)
