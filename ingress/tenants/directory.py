"""Holds what an ingress knows of tenants: their sources, and the keys that seal their bodies.

A record of `tenants` that cannot be used goes to `dlq`.
"""

from __future__ import annotations

import structlog
from confluent_kafka import KafkaException, Message, Producer

from ingress.tenants.sources import Source, SourceTable
from streams.errors import PoisonRecord
from streams.kafka.clients import producer_config
from streams.process.wall_clock import wall_ms
from streams.serde.codec import DEAD_LETTER
from streams.serde.ids import partition_for
from streams.serde.keys import SEPARATOR, is_of_data_key
from streams.serde.records import DeadLetter
from streams.settings import Settings
from streams.tenants.follower import TOPIC, Failed, TenantsFollower
from streams.topology.model import Topology
from streams.vault.keyring import DataKeyring

log = structlog.get_logger(__name__)

_FLUSH_SECONDS = 2.0


class Directory:
    """Follows `tenants` into a table and a book of keys; `lookup` never waits."""

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        table: SourceTable,
        book: DataKeyring,
        failed: Failed,
    ) -> None:
        self._table = table
        self._book = book
        self._letters = _DeadLetters(settings, topology.partitions)
        self._follower = TenantsFollower(
            settings, "ingress", self._fold, self._letters.write, failed
        )

    @property
    def ready(self) -> bool:
        """Whether everything that was on the topic when it was first read is known."""
        return self._follower.ready

    def lookup(self, tenant_id: str, name: str) -> Source | None:
        """The source, or None if it or its tenant is unknown or disabled."""
        return self._table.lookup(tenant_id, name)

    def known(self, tenant_id: str, name: str) -> tuple[str | None, str | None]:
        """Tenant and source of a path; each is None if no usable source has that name."""
        return self._table.known(tenant_id, name)

    def start(self) -> None:
        """Begin to follow; returns at once, even without a reachable broker."""
        self._follower.start()

    def stop(self) -> None:
        """Stop following and wait for the thread."""
        self._follower.stop()
        self._letters.close()

    def _fold(self, key: bytes | None, value: bytes | None) -> None:
        self._book.apply(key, value)
        self._table.apply(key, value)


class _DeadLetters:
    """Writes dead letters of unreadable records of `tenants`."""

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
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(_FLUSH_SECONDS)


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
        at=wall_ms(),
        topic=TOPIC,
        partition=partition,
        offset=offset,
        key=message.key(),
        value=None if is_of_data_key(key) else message.value(),
    )
