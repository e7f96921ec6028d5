"""A live copy of the compacted `tenants` topic, current within a second.

Every process reads every partition from its beginning, by manual assignment: there is no
group to rebalance and no offset to commit. The follower skips a record that cannot be used. Any
other error ends the process, because everybody would go on trusting an outdated copy.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from prometheus_client import Gauge

from streams.errors import ConfigError, PoisonRecord, StageFailed
from streams.kafka.clients import consumer_config
from streams.kafka.failures import damage
from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings
from streams.topology.model import Topology
from streams.topology.partition_counts import keyed_topics, refuse_other_counts

log = structlog.get_logger(__name__)

TOPIC = "tenants"
POSITION = Gauge(
    "tidegate_tenants_position",
    "Offset before which this process knows every record of the topic `tenants`",
    ["partition"],
)
_POLL_SECONDS = 0.2
_CONTACT_SECONDS = 2.0
_AGAIN_SECONDS = 1.0
"""How long it waits before it reads a damaged batch again."""
_DOUBT_SECONDS = 60.0
"""For how long a partition must not jump back, once it is read behind a damaged batch."""

Fold = Callable[[bytes | None, bytes | None], None]
"""Takes a record's key and value; raises `PoisonRecord` for one that cannot be used."""
Refuse = Callable[[Message, PoisonRecord], None]
Failed = Callable[[Exception], None]
"""Called from the follower's thread with an error after which the process must end."""


class TenantsFollower:
    """Follows `tenants` in a thread of its own; only that thread calls the given functions.

    `group` is the process's own, which it does not join here (see `consumer_config`).
    """

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        group: str,
        fold: Fold,
        refuse: Refuse,
        failed: Failed,
    ) -> None:
        self._settings = settings
        self._topology = topology
        self._group = group
        self._fold = fold
        self._refuse = refuse
        self._failed = failed
        self._told: set[tuple[int, int]] = set()  # errors that were logged, with their partitions
        self._next: dict[int, int] = {}  # of each partition, the offset behind the last record
        self._doubted: dict[int, float] = {}  # partitions that may jump back, and until when
        self._caught_up = threading.Event()
        self._thread = DaemonThread("tenants", self._follow, self._stands_still)

    @property
    def ready(self) -> bool:
        """Whether everything that was on the topic when it was first read is known."""
        return self._caught_up.is_set()

    def start(self) -> None:
        """Begin to follow; returns at once, even without a reachable broker."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following; wait for the thread, 5 seconds at most."""
        self._thread.stop(5)

    def _follow(self) -> None:
        eof = {"enable.partition.eof": True}
        consumer = Consumer(consumer_config(self._settings, self._group, **eof))
        unread = self._contact(consumer)
        while not self._thread.stopping.is_set():
            message = consumer.poll(_POLL_SECONDS)
            if message is not None and self._jumps_back(message):
                self._read_again(consumer, message.partition() or 0)
            elif message is not None:
                self._take(message, unread)
                if damage(message):
                    self._doubted[message.partition() or 0] = math.inf
                    self._read_again(consumer, message.partition() or 0)
        consumer.close()

    def _stands_still(self, error: Exception) -> None:
        if isinstance(error, ConfigError):
            self._failed(error)
            return
        log.exception("tenants are followed no more")
        self._failed(
            StageFailed(
                f"what it knows of tenants stands still ({type(error).__name__}: {error}): the "
                "process ends, and whoever started it starts it again"
            )
        )

    def _contact(self, consumer: Consumer) -> set[int]:
        """Assign every partition from its start; returns their numbers.

        Raises:
            ConfigError: a topic of this process has other than its declared number of partitions.
        """
        said = False
        while not self._thread.stopping.is_set():
            try:
                found = _partitions(consumer, self._settings.topic_prefix + TOPIC)
                self._refuse_other_counts(consumer)
            except KafkaException as error:
                if not said:
                    log.warning(
                        "tenants cannot be read yet: waiting",
                        bootstrap=self._settings.bootstrap,
                        reason=str(error.args[0]),
                    )
                said = True
                self._thread.stopping.wait(_POLL_SECONDS)
            else:
                consumer.assign(found)
                return {place.partition for place in found}
        return set()

    def _refuse_other_counts(self, consumer: Consumer) -> None:
        """Check all topics of this process: whoever waits for tenants writes none before that."""
        topics = consumer.list_topics(timeout=_CONTACT_SECONDS).topics
        counts = {name: len(each.partitions) for name, each in topics.items()}
        keyed = keyed_topics(self._group, self._topology)
        prefix = self._settings.topic_prefix
        refuse_other_counts(
            self._group, self._topology, keyed, lambda topic: counts.get(prefix + topic, 0)
        )

    def _take(self, message: Message, unread: set[int]) -> None:
        error = message.error()
        if error is None:
            partition, offset = message.partition() or 0, message.offset() or 0
            self._told = {told for told in self._told if told[1] != partition}
            self._apply(message)
            self._next[partition] = offset + 1
            POSITION.labels(partition).set(offset + 1)
        elif error.code() != KafkaError._PARTITION_EOF:
            self._tell(message, error)
        elif not self.ready:
            unread.discard(message.partition() or 0)
            if not unread:
                self._caught_up.set()
                log.info("tenants are known")

    def _jumps_back(self, message: Message) -> bool:
        """Whether librdkafka reads a partition from its beginning, some time after the damage.

        Settings that were changed long ago would hold again meanwhile. The doubt lasts for a minute
        after the first record; a log that was cut off is then read as it is.
        """
        partition, now = message.partition() or 0, time.monotonic()
        if message.error() is not None or partition not in self._doubted:
            return False
        self._doubted[partition] = min(self._doubted[partition], now + _DOUBT_SECONDS)
        doubted = now < self._doubted[partition]
        return doubted and (message.offset() or 0) < self._next.get(partition, 0)

    def _read_again(self, consumer: Consumer, partition: int) -> None:
        """Stand still before a damaged batch: librdkafka would skip it, or read all once more."""
        place = TopicPartition(self._settings.topic_prefix + TOPIC, partition)
        consumer.incremental_unassign([place])
        self._thread.stopping.wait(_AGAIN_SECONDS)
        place.offset = self._next.get(partition, OFFSET_BEGINNING)
        consumer.incremental_assign([place])

    def _tell(self, message: Message, error: KafkaError) -> None:
        """Log an error once until a record of its partition arrives again."""
        told = error.code(), message.partition() or 0
        if told not in self._told:
            self._told.add(told)
            reason = str(damage(message) or error.str())
            log.error("tenants cannot be read: what is known of them ages", reason=reason)

    def _apply(self, message: Message) -> None:
        try:
            self._fold(message.key(), message.value())
        except PoisonRecord as error:
            self._refuse(message, error)
        except Exception as error:  # one record must not end the process
            self._refuse(message, PoisonRecord("unusable", type(error).__name__))


def log_unusable(message: Message, error: PoisonRecord) -> None:
    """Log an unusable record of `tenants`, for processes that write no dead letter of it."""
    log.error(
        "a record of tenants cannot be used",
        partition=message.partition(),
        offset=message.offset(),
        reason=str(error),
    )


def _partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Every partition of a topic, at its start."""
    metadata = consumer.list_topics(topic, timeout=_CONTACT_SECONDS).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    return [TopicPartition(topic, p, OFFSET_BEGINNING) for p in metadata.partitions]
