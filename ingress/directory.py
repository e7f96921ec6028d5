"""A live copy of the compacted `tenants` topic: who may send, current within a second.

Every process reads every partition from its beginning, by manual assignment: there is no
group to rebalance and no offset to commit. A record that cannot be read goes to `dlq` and the
copy moves on.
"""

from __future__ import annotations

import contextvars
import threading
import time
from typing import Any

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from ingress.sources import Source, SourceTable
from streams.errors import PoisonRecord
from streams.kafka import consumer_config, producer_config
from streams.serde.codec import DEAD_LETTER
from streams.serde.ids import partition_for
from streams.serde.keys import SEPARATOR
from streams.serde.records import DeadLetter
from streams.settings import Settings
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

TOPIC = "tenants"
_POLL_SECONDS = 0.2
_CONTACT_SECONDS = 2.0


class Directory:
    """Follows `tenants` in a thread of its own; `lookup` never waits."""

    def __init__(self, settings: Settings, topology: Topology, table: SourceTable) -> None:
        self._settings = settings
        self._partitions = topology.partitions
        self._table = table
        self._caught_up = threading.Event()
        self._stopping = threading.Event()
        context = contextvars.copy_context()  # so that its log lines name the stage as well
        self._thread = threading.Thread(
            target=context.run, args=(self._run,), name="directory", daemon=True
        )

    @property
    def ready(self) -> bool:
        """Whether all that stood on the topic when it was first read is known."""
        return self._caught_up.is_set()

    def lookup(self, tenant_id: str, name: str) -> Source | None:
        """The source, or None where it, or its tenant, is unknown or disabled."""
        return self._table.lookup(tenant_id, name)

    def known(self, tenant_id: str, name: str) -> tuple[str | None, str | None]:
        """Tenant and source of a path, each None where none of that name has a source to send."""
        return self._table.known(tenant_id, name)

    def start(self) -> None:
        """Begin to follow; returns at once, also with no broker to be seen."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following and wait for the thread."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = Consumer(_consumer_config(self._settings))
        letters = _DeadLetters(self._settings, self._partitions)
        try:
            unread = self._contact(consumer)
            while not self._stopping.is_set():
                message = consumer.poll(_POLL_SECONDS)
                if message is not None:
                    self._take(message, unread, letters)
                letters.poll()
        finally:
            consumer.close()
            letters.close()

    def _contact(self, consumer: Consumer) -> set[int]:
        """Assign every partition from its start; their numbers."""
        said = False
        while not self._stopping.is_set():
            try:
                return _assign(consumer, self._settings.topic_prefix + TOPIC)
            except KafkaException as error:
                if not said:
                    log.warning(
                        "tenants cannot be read yet: waiting",
                        bootstrap=self._settings.bootstrap,
                        reason=str(error.args[0]),
                    )
                said = True
                self._stopping.wait(_POLL_SECONDS)
        return set()

    def _take(self, message: Message, unread: set[int], letters: _DeadLetters) -> None:
        error = message.error()
        if error is None:
            self._apply(message, letters)
        elif error.code() == KafkaError._PARTITION_EOF and not self.ready:
            unread.discard(message.partition() or 0)
            if not unread:
                self._caught_up.set()
                log.info("sources are known")

    def _apply(self, message: Message, letters: _DeadLetters) -> None:
        try:
            self._table.apply(message.key(), message.value())
        except PoisonRecord as error:
            letters.write(message, error)
        except Exception as error:  # nobody watches this thread: it must outlive any record
            letters.write(message, PoisonRecord("unusable", type(error).__name__))


def _consumer_config(settings: Settings) -> dict[str, Any]:
    return consumer_config(
        settings,
        "ingress.directory",
        **{"enable.partition.eof": True, "reconnect.backoff.max.ms": 1_000, "log_level": 2},
    )


def _assign(consumer: Consumer, topic: str) -> set[int]:
    metadata = consumer.list_topics(topic, timeout=_CONTACT_SECONDS).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in metadata.partitions])
    return set(metadata.partitions)


class _DeadLetters:
    """Where records of `tenants` go that nobody can read."""

    def __init__(self, settings: Settings, partitions: int) -> None:
        self._topic = settings.topic_prefix + "dlq"
        self._partitions = partitions
        self._producer = Producer(producer_config(settings, log_level=2))

    def write(self, message: Message, error: PoisonRecord) -> None:
        letter = _letter(message, error)
        log.error(
            "a record of tenants cannot be used: in the dead letters",
            id=letter.id, reason=letter.reason, detail=letter.detail,
        )  # fmt: skip
        try:
            self._producer.produce(
                self._topic, DEAD_LETTER.encode(letter), letter.id,
                partition_for(letter.tenant_id, self._partitions),
            )  # fmt: skip
        except (BufferError, KafkaException) as failure:
            log.error("the dead letter itself could not be sent", id=letter.id, error=str(failure))

    def poll(self) -> None:
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(_CONTACT_SECONDS)


def _letter(message: Message, error: PoisonRecord) -> DeadLetter:
    partition, offset = message.partition() or 0, message.offset() or 0
    key = message.key() or b""
    return DeadLetter(
        id=f"ingress:{TOPIC}:{partition}:{offset}",
        kind="record",
        tenant_id=key.split(SEPARATOR)[0].decode("utf-8", "replace"),
        reason=error.reason,
        detail=error.detail,
        stage="ingress",
        at=int(time.time() * 1000),
        topic=TOPIC,
        partition=partition,
        offset=offset,
        key=message.key(),
        value=message.value(),
    )
