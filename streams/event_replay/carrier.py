"""Carries the replays: reads what is asked on `replays`, and works on what this process owns.

The partitions of `replays` are shared out among the processes of one consumer group, so each replay
has one carrier, and a killed one's replays go to another. A process that has lost a replay without
knowing it does no harm: the jobs that it asks for have the ids of those that its heir asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

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
from streams.event_reader.span import Question, Span
from streams.event_replay.desk import Desk
from streams.event_replay.known import TOPIC, Known
from streams.event_replay.sink import Sink
from streams.event_replay.spans import ask
from streams.event_replay.standing import standing
from streams.event_replay.verdicts import Reason
from streams.event_replay.work import Work, write
from streams.kafka.admin import admin_client
from streams.kafka.clients import closing_watched, consumer_config, wait_for_broker
from streams.process.daemon_thread import DaemonThread
from streams.serde import ids
from streams.serde.codec import REPLAY
from streams.serde.replay_records import ReplayAsked, ReplayProgress
from streams.settings import Settings
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

GROUP = "replays"
_RETRY_SECONDS = 1.0
_IDLE_SECONDS, _BUSY_SECONDS = 0.5, 0.02
_AT_ONCE = 500


class Carrier:
    """The thread that carries replays from `start` to `stop`; `ready` is True once it may begin."""

    def __init__(
        self, settings: Settings, desk: Callable[[], Desk], ready: Callable[[], bool]
    ) -> None:
        self._settings = settings
        self._new_desk = desk
        self._ready = ready
        self._thread = DaemonThread("replays", self._run)
        self._said: str | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the current slice of work, 5 seconds at most."""
        self._thread.stop(5)

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            try:
                if self._ready():
                    wait_for_broker(self._settings)
                    self._carry()
            except (KafkaException, KafkaUnavailable) as error:
                if str(error) != self._said:
                    log.warning("replays of events stand still: trying again", error=str(error))
                    self._said = str(error)
            except Exception:
                # An unforeseen error must not end this thread: replays would silently stand still.
                log.exception("carrying replays of events failed: trying again")
            self._thread.stopping.wait(_RETRY_SECONDS)

    def _carry(self) -> None:
        desk = self._new_desk()
        config = consumer_config(
            self._settings,
            GROUP,
            **{
                "enable.partition.eof": True,
                "group.instance.id": f"{GROUP}-{self._settings.instance}",
            },
        )
        with closing_watched(Consumer(config)) as consumer:
            consumer.subscribe(
                [self._settings.topic_prefix + TOPIC],
                on_assign=_begin,
                on_revoke=lambda _, places: desk.give_back([p.partition for p in places]),
                on_lost=lambda _, places: desk.forget([p.partition for p in places]),
            )
            try:
                while not self._thread.stopping.is_set():
                    wait = _BUSY_SECONDS if desk.busy else _IDLE_SECONDS
                    for message in consumer.consume(_AT_ONCE, wait):
                        _take(desk, message)
                    desk.work()
                    self._said = None
                desk.give_back(desk.partitions)
            finally:
                desk.forget(desk.partitions)


def carrier(
    settings: Settings,
    topology: Topology,
    closed: Callable[[str], Reason | None],
    ready: Callable[[], bool],
) -> Carrier:
    """The carrier of a process; `closed` says why a tenant gets no jobs, once `ready` is true."""

    def desk() -> Desk:
        admin, sink, author = admin_client(settings), Sink(settings), ids.new_id(settings.instance)
        partitions, kept_ms = topology.partitions, topology.finished_jobs_ms
        there = standing(admin, settings, topology, closed)

        def asked(known: ReplayAsked) -> Question:
            return ask(admin, settings.topic_prefix, partitions, known)

        def open_(known: Known, now: Mapping[int, Span]) -> Work:
            return Work(settings, topology, known, now, there, sink, author)

        def written(known: Known, progress: ReplayProgress) -> None:
            write(sink, known, progress, author, partitions)

        return Desk(author, kept_ms, asked, open_, written, lambda: sink.broker_ms)

    return Carrier(settings, desk, ready)


def _begin(consumer: Consumer, places: Sequence[TopicPartition]) -> None:
    """Read each partition from its first record on: the topic keeps what is known of a replay."""
    consumer.assign([TopicPartition(p.topic, p.partition, OFFSET_BEGINNING) for p in places])


def _take(desk: Desk, message: Message) -> None:
    error, partition = message.error(), message.partition() or 0
    if error is not None and error.code() == KafkaError._PARTITION_EOF:
        desk.read_to_end(partition)
    elif error is not None:
        raise KafkaException(error)
    elif message.value() is not None:
        try:
            record = REPLAY.decode(message.value())
            desk.fold(partition, replace(record, at=message.timestamp()[1]))
        except DecodeError as poison:
            log.warning("a record of replays is passed over", error=str(poison))
