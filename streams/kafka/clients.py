"""Kafka clients for every process: their settings, the first contact, awaited sends."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from streams.errors import KafkaUnavailable
from streams.kafka.failures import not_sent
from streams.kafka.first_contact import Contact, refuses
from streams.process.standstill import Standstill
from streams.serde.sizes import PRODUCER_BATCH_BYTES
from streams.settings import ANSWER_MS, Settings

log = structlog.get_logger(__name__)

_RETRY_BACKOFF_MS = 2
"""How soon librdkafka retries to begin a transaction while the broker still closes the last one.
The default is 100 ms, ten times what a commit takes. It doubles up to a second (KIP-580)."""
_FETCH_MS = 2_000
"""The least that a consumer needs; the broker itself waits up to 500 ms for records."""
_TRANSACTION = ("transactional.id", "transaction.timeout.ms")


def producer_config(settings: Settings, **overrides: Any) -> dict[str, Any]:
    """An idempotent producer that waits for all in-sync replicas, whatever the operator sets."""
    config = settings.client(
        **{
            "compression.type": "lz4",
            "message.max.bytes": PRODUCER_BATCH_BYTES,
            "linger.ms": 2,
            "socket.timeout.ms": min(settings.session_timeout_ms, ANSWER_MS),
            "retry.backoff.ms": _RETRY_BACKOFF_MS,
            "queue.buffering.max.messages": 1_000_000,
            **overrides,
        }
    )
    transaction = {name: overrides[name] for name in _TRANSACTION if name in overrides}
    return config | transaction | {"acks": "all", "enable.idempotence": True}


@contextmanager
def closing_watched(consumer: Consumer) -> Iterator[Consumer]:
    """Close the consumer at the end; the process ends itself if that never returns."""
    try:
        yield consumer
    finally:
        with Standstill().watched():
            consumer.close()


def consumer_config(settings: Settings, group: str, **overrides: Any) -> dict[str, Any]:
    """A read_committed consumer that never commits by itself and never skips old records.

    The operator's settings of Kafka's clients change its pace alone: guarantees rest on the others.

    librdkafka asks for the coordinator of `group` even if the consumer never joins it, for which
    the user needs a right. So every reader of a process names the group that the process is in, or
    is named after.
    """
    defaults = settings.client(
        **{
            "check.crcs": True,
            "fetch.queue.backoff.ms": 5,
            "fetch.wait.max.ms": 500,
            "socket.timeout.ms": min(max(settings.session_timeout_ms, _FETCH_MS), ANSWER_MS),
            "session.timeout.ms": settings.session_timeout_ms,
            "heartbeat.interval.ms": settings.session_timeout_ms // 5,
        }
    )
    return defaults | {
        "group.id": f"{settings.topic_prefix}{group}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        **overrides,
    }


def wait_for_broker(
    settings: Settings,
    deadline_seconds: float | None = None,
    *,
    refused_seconds: float | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Return once a broker answers; log once that none does, and once that one came back.

    It also returns, within 2 s, once `stop` is set.

    Raises:
        KafkaUnavailable: none has answered after `deadline_seconds`, or one still refuses this
            client's user or its TLS `refused_seconds` after the first refusal. Without these it
            waits for ever.
    """
    contact = Contact(settings)
    started, said = time.monotonic(), False
    while stop is None or not stop.is_set():
        reason = contact.silence()
        waited = time.monotonic() - started
        if reason is None:
            if said:
                log.info("kafka answers", waited_seconds=round(waited, 1))
            return
        if not said:
            log.warning(
                "kafka does not answer: waiting", bootstrap=settings.bootstrap, reason=reason.str()
            )
            said = True
        limits = (waited, deadline_seconds), (contact.refused_seconds, refused_seconds)
        if any(limit is not None and lasted > limit for lasted, limit in limits):
            raise _no_answer(settings.bootstrap, reason)


def _no_answer(bootstrap: str, reason: KafkaError) -> KafkaUnavailable:
    if refuses(reason):
        return KafkaUnavailable(
            f"Kafka at {bootstrap} refuses this client ({reason.str()}): see that the settings "
            "TIDEGATE_KAFKA_SECURITY_PROTOCOL, ..._SASL_* and ..._SSL_* are those of the cluster"
        )
    return KafkaUnavailable(
        f"no Kafka broker answers at {bootstrap} ({reason.str()}): "
        "start one with `tidegate broker start`, or name another with --bootstrap"
    )


class AwaitedProducer:
    """A producer whose `send` ends when every in-sync replica has the record.

    It belongs to one event loop. Its poller runs only while a send is in progress: librdkafka's
    callbacks come from `poll`, and a poll of 1 ms in the loop is cheaper than a thread.
    """

    def __init__(self, settings: Settings, **overrides: Any) -> None:
        self._prefix = settings.topic_prefix
        self._producer = Producer(producer_config(settings, **overrides))
        self._pending = 0
        self._poller: asyncio.Task[None] | None = None

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> int:
        """Send a record; returns the offset of the acknowledged record.

        Raises:
            KafkaUnavailable: the record was not acknowledged; it may still be written.
            RecordTooLarge: the topic takes no record, or no batch, of this size.
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        try:
            self._producer.produce(
                self._prefix + topic,
                value,
                key,
                partition,
                on_delivery=partial(self._delivered, topic, future),
                headers=list(headers),
            )
        except BufferError as error:
            raise KafkaUnavailable(f"{topic}: {error}") from error
        except KafkaException as error:
            _end_if_fatal(error.args[0])
            raise not_sent(topic, error.args[0]) from error
        self._pending += 1
        if self._poller is None or self._poller.done():
            # It serves all senders: its log lines must not name the trace of the first.
            self._poller = asyncio.create_task(self._poll(), context=Context())
        try:
            return await future
        finally:
            del future  # its exception holds this frame: the cycle would keep the record in memory

    def _delivered(
        self, topic: str, future: asyncio.Future[int], error: KafkaError | None, message: Message
    ) -> None:
        self._pending -= 1
        if error:
            _end_if_fatal(error)
        if future.done():
            return
        offset = message.offset()
        if error:
            future.set_exception(not_sent(topic, error))
        elif offset is None:  # a retry of a batch that the broker has, but whose offset it forgot
            future.set_exception(KafkaUnavailable(f"{topic}: written at an unknown offset"))
        else:
            future.set_result(offset)

    async def close(self) -> None:
        """Wait, 5 seconds at most, for sends in progress."""
        await asyncio.to_thread(self._producer.flush, 5)

    async def _poll(self) -> None:
        while self._pending:
            self._producer.poll(0)
            await asyncio.sleep(0.001)


def _end_if_fatal(error: KafkaError) -> None:
    """End the process on a fatal error: a producer never recovers from one, a new one does.

    Source: librdkafka, INTRODUCTION. The process holds nothing but requests in progress, so it
    drains and ends, and its supervisor starts it again.
    """
    if error.fatal():
        log.critical("the producer cannot go on: this process ends", error=str(error))
        signal.raise_signal(signal.SIGTERM)
