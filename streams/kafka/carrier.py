"""Carries acts: reads a topic that keeps what is known of them, and runs what this process owns.

The partitions of the topic are shared out among the processes of one consumer group, so each act
has one carrier, and a killed one's acts go to another. A process that has lost an act without
knowing it must do no harm: what it does then is what its heir does, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from threading import Event
from typing import Protocol

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from streams.errors import DecodeError, KafkaUnavailable
from streams.kafka.clients import closing_watched, consumer_config, wait_for_broker
from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings

log = structlog.get_logger(__name__)

_RECONNECT_SECONDS, _POLL_SECONDS = 1.0, 0.5
_SAVED_WITHIN_SECONDS = 5.0
_AT_ONCE = 500


class Attempt(Protocol):
    """An attempt at one act; `over` is set at its end. One that is `lost` writes nothing more."""

    lost: bool

    @property
    def over(self) -> Event: ...


class Owned(Protocol):
    """The acts of the partitions that a process owns; the carrier's thread alone uses it."""

    @property
    def partitions(self) -> list[int]: ...

    def take(self, partition: int, value: bytes, at: int) -> None:
        """Learn what a record says; `at` is the time at which a broker took it.

        Raises:
            DecodeError: it cannot be read, and is passed over.
        """

    def read_to_end(self, partition: int) -> None:
        """Begin to carry: everything that was written about this partition's acts is known."""

    def carry(self) -> None:
        """Begin an attempt at each act that is not in its ordered state, unless one runs."""

    def release(self, partitions: Iterable[int], *, lost: bool = False) -> Sequence[Attempt]:
        """Stop carrying; return the attempts that still have to save how far they are."""


class Carrier:
    """The thread that reads a topic from `start` to `stop`; it carries once `ready` is True.

    The topic's name is that of the consumer group, too.
    """

    def __init__(
        self, settings: Settings, topic: str, owned: Callable[[], Owned], ready: Callable[[], bool]
    ) -> None:
        self._settings, self._topic = settings, topic
        self._new_owned = owned
        self._ready = ready
        self._thread = DaemonThread(topic, self._run)
        self._logged: str | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End once the progress of each act is saved, after some seconds at most."""
        self._thread.stop(_SAVED_WITHIN_SECONDS + 2 * _POLL_SECONDS)

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            try:
                if self._ready():
                    wait_for_broker(self._settings)
                    self._carry()
            except (KafkaException, KafkaUnavailable) as error:
                if str(error) != self._logged:
                    log.warning(f"{self._topic} stand still: trying again", error=str(error))
                    self._logged = str(error)
            except Exception:
                # An unforeseen error must not end this thread: acts would silently stand still.
                log.exception(f"carrying {self._topic} failed: trying again")
            self._thread.stopping.wait(_RECONNECT_SECONDS)

    def _carry(self) -> None:
        owned = self._new_owned()
        member = {"group.instance.id": f"{self._topic}-{self._settings.instance}"}
        config = consumer_config(
            self._settings, self._topic, **{"enable.partition.eof": True}, **member
        )
        with closing_watched(Consumer(config)) as consumer:
            consumer.subscribe(
                [self._settings.topic_prefix + self._topic],
                on_assign=_begin,
                on_revoke=lambda _, places: _give_back(owned, [p.partition for p in places]),
                on_lost=lambda _, places: _lose(owned, [p.partition for p in places]),
            )
            try:
                while not self._thread.stopping.is_set():
                    for message in consumer.consume(_AT_ONCE, _POLL_SECONDS):
                        _take(owned, message)
                    owned.carry()
                    self._logged = None
                _give_back(owned, owned.partitions)
            finally:
                _lose(owned, owned.partitions)


def _give_back(owned: Owned, partitions: Sequence[int]) -> None:
    """Save the progress of what is at work, so that the next owner goes on from there.

    What is not saved in time is lost: its next owner may have begun.
    """
    until = time.monotonic() + _SAVED_WITHIN_SECONDS
    for attempt in owned.release(partitions):
        if not attempt.over.wait(max(0.0, until - time.monotonic())):
            attempt.lost = True


def _lose(owned: Owned, partitions: Sequence[int]) -> None:
    """Stop working on what another process owns already."""
    owned.release(partitions, lost=True)


def _begin(consumer: Consumer, places: Sequence[TopicPartition]) -> None:
    """Read each partition from its first record on: the topic keeps what is known of an act."""
    consumer.assign([TopicPartition(p.topic, p.partition, OFFSET_BEGINNING) for p in places])


def _take(owned: Owned, message: Message) -> None:
    error, partition, value = message.error(), message.partition() or 0, message.value()
    if error is not None and error.code() == KafkaError._PARTITION_EOF:
        owned.read_to_end(partition)
    elif error is not None:
        raise KafkaException(error)
    elif value is not None:
        try:
            owned.take(partition, value, message.timestamp()[1])
        except DecodeError as poison:
            log.warning("a record about acts is passed over", error=str(poison))
