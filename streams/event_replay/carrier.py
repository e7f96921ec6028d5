"""Carries the replays: knows what is asked on `replays`, and runs what this process owns.

A process that has lost a replay without knowing it does no harm: the jobs that it asks for have the
ids of those that its heir asks for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from prometheus_client import Gauge

from streams.event_replay.eligibility import Closed
from streams.event_replay.replay import TOPIC, Replay
from streams.event_replay.replaying import Process, Replaying
from streams.kafka.admin import admin_client
from streams.kafka.carrier import Carrier
from streams.process.daemon_thread import DaemonThread
from streams.serde import ids
from streams.serde.codec import REPLAY
from streams.serde.replay_records import ReplayProgress, ReplayRecord
from streams.settings import Settings
from streams.topology.model import Topology

_READING = Gauge("tidegate_operator_replays_running", "Replays of events at work in this process.")
_STUCK = Gauge(
    "tidegate_operator_replays_stuck", "Replays of events that could not move at their last try."
)
_RETRY_SECONDS = 5.0


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

    def take(self, partition: int, value: bytes, at: int) -> None:
        """Learn what a record says; `at` is the time at which a broker took it.

        Raises:
            DecodeError: it cannot be read.
        """
        self.fold(partition, replace(REPLAY.decode(value), at=at))

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


def carrier(
    settings: Settings,
    topology: Topology,
    closed: Closed,
    is_revoked: Callable[[str], bool],
    ready: Callable[[], bool],
) -> Carrier:
    """The carrier of a process.

    `closed` says why a tenant gets no jobs, and `is_revoked` whether a principal's token was
    revoked, once `ready` is true.
    """

    def owned() -> OwnedReplays:
        author = ids.new_id(settings.instance)
        process = Process(settings, topology, admin_client(settings), closed, author, is_revoked)
        return OwnedReplays(author, partial(Replaying, process), _start)

    return Carrier(settings, TOPIC, owned, ready)


def _start(replaying: Replaying) -> None:
    DaemonThread(f"replay-{replaying.replay.replay_id}", replaying.run).start()
