"""Reads the work partitions of this worker and has one of them announced."""

from __future__ import annotations

import threading
from functools import cache, partial

import structlog
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from streams.errors import Fenced
from streams.kafka.admin import admin_client
from streams.kafka.clients import consumer_config
from streams.kafka.failures import is_fatal
from streams.kafka.unowned_partitions import UnownedPartitions
from streams.settings import Settings
from streams.worker.transport.contract import Inbox
from streams.worker.transport.messages import incoming
from streams.worker.transport.reply_reader import ReplyReader
from streams.worker.worker import WorkerSpec

log = structlog.get_logger(__name__)


_COMMIT_MS = 1_000


class WorkReader:
    """A static member of the pool's group: it keeps its partitions if it restarts in time.

    `width` is the number of work partitions. While it has none of them, it looks whether the group
    has left some of them without an owner.
    """

    def __init__(
        self, settings: Settings, place: WorkerSpec, width: int, inbox: Inbox, replies: ReplyReader
    ) -> None:
        self._topic = f"jobs.work.{place.pool}"
        self._inbox = inbox
        self._replies = replies
        self._announced: int | None = None
        self._said: set[str] = set()
        self._consumer = Consumer(
            consumer_config(
                settings,
                place.group,
                **{
                    "group.instance.id": f"{place.group}-{place.instance}",
                    "partition.assignment.strategy": "cooperative-sticky",
                    # It commits what was stored each second, before a rebalance, and on close.
                    "enable.auto.commit": True,
                    "auto.commit.interval.ms": _COMMIT_MS,
                    "enable.auto.offset.store": False,
                },
            )
        )
        self._subscription = settings.topic_prefix + self._topic
        self._unowned = partial(
            UnownedPartitions,
            cache(partial(admin_client, settings)),  # made by the first look: few workers need one
            settings.topic_prefix + place.group,
            self._subscription,
            width,
            settings.session_seconds,
        )
        self._look: UnownedPartitions | None = None

    def run(self, closed: threading.Event) -> None:
        """Read until closed; the body of the reader's thread."""
        try:
            self._subscribe()
            while not closed.is_set():
                self._read()
        finally:
            self._consumer.close()

    def _subscribe(self) -> None:
        self._consumer.subscribe(
            [self._subscription],
            on_assign=self._rebalanced,
            on_revoke=self._rebalanced,
            on_lost=self._rebalanced,
        )

    def _join_anew(self) -> None:
        self._consumer.unsubscribe()
        self._subscribe()

    def _read(self) -> None:
        message = self._consumer.poll(0.1)
        mine = sorted(tp.partition for tp in self._consumer.assignment())
        self._announce(mine)
        if not mine and self._look is not None:
            self._look.claim(False, self._join_anew)
        while message is not None:
            if self._sound(message):
                self._inbox.leased(incoming(message, self._topic))
                self._store(message)
            message = self._consumer.poll(0)

    def _announce(self, mine: list[int]) -> None:
        """Announce a partition, and keep to it while it is ours: leases are on their way to it."""
        if self._announced in mine or (not mine and self._announced is None):
            return
        partition = mine[0] if mine else None
        if partition is None:
            log.warning("no work partition: idle until one is assigned", topic=self._topic)
        elif not self._replies.follow(partition):
            return
        else:
            log.info("work partition assigned", topic=self._topic, partition=partition)
        self._announced = partition
        self._inbox.assigned(partition)

    def _rebalanced(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Look at the group anew; the assignment is read later, and held leases survive this."""
        self._look = self._unowned()

    def _store(self, message: Message) -> None:
        """Have it committed later: a lease that is read twice is recognised, or declined."""
        try:
            self._consumer.store_offsets(message)
        except KafkaException as error:  # the partition was taken away meanwhile
            log.warning("offset not stored", error=str(error))

    def _sound(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            self._said.clear()
            return True
        if is_fatal(error):
            # A static member that only reads can have no other fatal error.
            raise Fenced(
                f"{error.str()}: another worker runs under this instance name; "
                "give each process its own TIDEGATE_INSTANCE"
            )
        if error.name() not in self._said:
            self._said.add(error.name())
            log.warning("cannot read work: trying on", topic=self._topic, error=error.str())
        return False
