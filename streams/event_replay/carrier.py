"""Carries the replays: reads what is asked on `replays`, and runs what this process owns.

The partitions of `replays` are shared out among the processes of one consumer group, so each replay
has one carrier, and a killed one's replays go to another. A process that has lost a replay without
knowing it does no harm: the jobs that it asks for have the ids of those that its heir asks for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

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

from streams.errors import DecodeError, KafkaUnavailable
from streams.event_replay.eligibility import Closed
from streams.event_replay.replay import TOPIC, Replay
from streams.event_replay.replaying import Process, Replaying
from streams.kafka.admin import admin_client
from streams.kafka.clients import closing_watched, consumer_config, wait_for_broker
from streams.process.daemon_thread import DaemonThread
from streams.serde import ids
from streams.serde.codec import REPLAY
from streams.serde.replay_records import ReplayProgress, ReplayRecord
from streams.settings import Settings
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

GROUP = "replays"
_READING = Gauge("tidegate_operator_replays_running", "Replays of events at work in this process.")
_STUCK = Gauge(
    "tidegate_operator_replays_stuck", "Replays of events that could not move at their last try."
)
_RETRY_SECONDS, _RECONNECT_SECONDS = 5.0, 1.0
_POLL_SECONDS = 0.5
_SAVED_WITHIN_SECONDS = 5.0
_AT_ONCE = 500


class OwnedReplays:
    """The replays of the partitions that a process owns; one thread alone uses it.

    `author` is this process in the records of progress. `begin` makes an attempt at a replay, given
    whether it is stuck, and `start` runs it in a thread.
    """

    def __init__(
        self,
        author: str,
        begin: Callable[[Replay, bool], Replaying],
        start: Callable[[Replaying], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._author = author
        self._begin, self._start, self._clock = begin, start, clock
        self._replays: dict[int, dict[str, Replay]] = {}
        self._whole: set[int] = set()
        self._at_work: dict[str, Replaying] = {}
        self._retry_at: dict[str, float] = {}

    @property
    def partitions(self) -> list[int]:
        return list(self._replays)

    def fold(self, partition: int, record: ReplayRecord) -> None:
        """Learn what a record says; its `at` is the time at which a broker took it.

        The progress that this process wrote since it carries the partition is known already.
        """
        ours = isinstance(record.body, ReplayProgress) and record.by == self._author
        if ours and partition in self._whole:
            return
        known, replay_id = self._replays.setdefault(partition, {}), record.replay_id
        replay = known[replay_id] = known.get(replay_id, Replay(replay_id)).folded(record)
        if replay_id in self._at_work:
            self._at_work[replay_id].replay = replay

    def read_to_end(self, partition: int) -> None:
        """Begin to carry: everything that was written about this partition's replays is known."""
        self._replays.setdefault(partition, {})
        self._whole.add(partition)

    def carry(self) -> None:
        """Begin an attempt at each replay that is not in its ordered state, unless one runs."""
        for number in self._whole:
            known = self._replays[number]
            for replay_id in known:
                if at_work := self._at_work.get(replay_id):
                    known[replay_id] = self._learnt(known[replay_id], at_work)
                elif not known[replay_id].unobeyed:
                    self._retry_at.pop(replay_id, None)
                elif self._clock() >= self._retry_at.get(replay_id, 0.0):
                    begun = self._begin(known[replay_id], replay_id in self._retry_at)
                    self._at_work[replay_id] = begun
                    self._start(begun)
        _READING.set(sum(each.reading for each in self._at_work.values()))
        _STUCK.set(len(self._retry_at))

    def release(self, partitions: Iterable[int], *, lost: bool = False) -> list[Replaying]:
        """Stop carrying; return the attempts that still have to save how far they are."""
        released = list[Replaying]()
        for number in tuple(partitions):
            self._whole.discard(number)
            for replay_id in self._replays.pop(number, {}):
                self._retry_at.pop(replay_id, None)
                if at_work := self._at_work.pop(replay_id, None):
                    at_work.lost, at_work.released = lost, True
                    released.append(at_work)
        return released

    def _learnt(self, replay: Replay, at_work: Replaying) -> Replay:
        """The replay after what an attempt has achieved so far, or at its end."""
        replay_id = replay.replay_id
        if not at_work.stuck:
            self._retry_at.pop(replay_id, None)
        if not at_work.over.is_set():
            return replay
        del self._at_work[replay_id]
        if at_work.stuck:
            self._retry_at[replay_id] = self._clock() + _RETRY_SECONDS
        return replace(replay, progress=at_work.progress)


class Carrier:
    """The thread that reads `replays` from `start` to `stop`; it carries once `ready` is True."""

    def __init__(
        self, settings: Settings, owned: Callable[[], OwnedReplays], ready: Callable[[], bool]
    ) -> None:
        self._settings = settings
        self._new_owned = owned
        self._ready = ready
        self._thread = DaemonThread("replays", self._run)
        self._logged: str | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End once the progress of each replay is saved, after some seconds at most."""
        self._thread.stop(_SAVED_WITHIN_SECONDS + 2 * _POLL_SECONDS)

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            try:
                if self._ready():
                    wait_for_broker(self._settings)
                    self._carry()
            except (KafkaException, KafkaUnavailable) as error:
                if str(error) != self._logged:
                    log.warning("replays of events stand still: trying again", error=str(error))
                    self._logged = str(error)
            except Exception:
                # An unforeseen error must not end this thread: replays would silently stand still.
                log.exception("carrying replays of events failed: trying again")
            self._thread.stopping.wait(_RECONNECT_SECONDS)

    def _carry(self) -> None:
        owned = self._new_owned()
        member = {"group.instance.id": f"{GROUP}-{self._settings.instance}"}
        config = consumer_config(self._settings, GROUP, **{"enable.partition.eof": True}, **member)
        with closing_watched(Consumer(config)) as consumer:
            consumer.subscribe(
                [self._settings.topic_prefix + TOPIC],
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


def carrier(
    settings: Settings, topology: Topology, closed: Closed, ready: Callable[[], bool]
) -> Carrier:
    """The carrier of a process; `closed` says why a tenant gets no jobs, once `ready` is true."""

    def owned() -> OwnedReplays:
        author = ids.new_id(settings.instance)
        process = Process(settings, topology, admin_client(settings), closed, author)
        return OwnedReplays(author, partial(Replaying, process), _start)

    return Carrier(settings, owned, ready)


def _start(replaying: Replaying) -> None:
    DaemonThread(f"replay-{replaying.replay.replay_id}", replaying.run).start()


def _give_back(owned: OwnedReplays, partitions: Sequence[int]) -> None:
    """Save the progress of what is at work, so that the next owner goes on from there."""
    until = time.monotonic() + _SAVED_WITHIN_SECONDS
    for replaying in owned.release(partitions):
        replaying.over.wait(max(0.0, until - time.monotonic()))


def _lose(owned: OwnedReplays, partitions: Sequence[int]) -> None:
    """Stop working on what another process owns already."""
    owned.release(partitions, lost=True)


def _begin(consumer: Consumer, places: Sequence[TopicPartition]) -> None:
    """Read each partition from its first record on: the topic keeps what is known of a replay."""
    consumer.assign([TopicPartition(p.topic, p.partition, OFFSET_BEGINNING) for p in places])


def _take(owned: OwnedReplays, message: Message) -> None:
    error, partition = message.error(), message.partition() or 0
    if error is not None and error.code() == KafkaError._PARTITION_EOF:
        owned.read_to_end(partition)
    elif error is not None:
        raise KafkaException(error)
    elif message.value() is not None:
        try:
            record = REPLAY.decode(message.value())
            owned.fold(partition, replace(record, at=message.timestamp()[1]))
        except DecodeError as poison:
            log.warning("a record of replays is passed over", error=str(poison))
