"""The replays of the partitions that a process owns, and what is to be done about each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import structlog
from confluent_kafka import KafkaException

from streams.errors import KafkaUnavailable
from streams.event_replay import metrics
from streams.event_replay.known import Known
from streams.event_replay.work import Work
from streams.serde.replay_records import ReplayProgress, ReplayRecord, ReplayStatus

log = structlog.get_logger(__name__)

_AT_ONCE = 4
_RETRY_SECONDS = 5.0

_CLASH = (
    "two different replays were asked for with one Idempotency-Key at the same time: ask for each "
    "again, with keys of their own"
)

NOTHING = ReplayProgress("running", ())
"""The progress of a replay that has not found out yet what it has to read."""

Open = Callable[[Known], Work]
Write = Callable[[Known, ReplayProgress], None]


class Desk:
    """Folds what is known, opens and closes works; one thread alone uses it.

    `author` is this desk in the records that it writes. A replay ends `kept_ms` after it was asked
    for: as long the dispatcher knows each of its jobs, and makes none a second time. `open_` begins
    a work; `write` writes the progress of a replay that has no work. Both raise `KafkaUnavailable`
    or `KafkaException`. `broker_ms` tells when a broker took the newest record that was written.
    """

    def __init__(
        self, author: str, kept_ms: int, open_: Open, write: Write, broker_ms: Callable[[], int]
    ) -> None:
        self._author = author
        self._kept_ms = kept_ms
        self._broker_ms = broker_ms
        self._open = open_
        self._write = write
        self._known: dict[int, dict[str, Known]] = {}
        self._whole: set[int] = set()
        self._works: dict[str, Work] = {}
        self._retry_at: dict[str, float] = {}

    @property
    def partitions(self) -> list[int]:
        return list(self._known)

    @property
    def busy(self) -> bool:
        return bool(self._works)

    def fold(self, partition: int, record: ReplayRecord) -> None:
        """Learn what a record says; its `at` is the time at which a broker took it.

        What this desk wrote since it works on the partition is known already.
        """
        ours = isinstance(record.body, ReplayProgress) and record.by == self._author
        if ours and partition in self._whole:
            return
        of_partition = self._known.setdefault(partition, {})
        known = of_partition.get(record.replay_id, Known(record.replay_id))
        of_partition[record.replay_id] = known.folded(record)

    def read_to_end(self, partition: int) -> None:
        """Begin to work: everything that was written about this partition's replays is known."""
        self._known.setdefault(partition, {})
        self._whole.add(partition)

    def give_back(self, partitions: Iterable[int]) -> None:
        """Save the progress of what is at work, so that the next owner goes on from there."""
        for number in partitions:
            for known in self._known.get(number, {}).values():
                work = self._works.get(known.replay_id)
                if work is not None:
                    try:
                        work.save("running")
                    except (KafkaUnavailable, KafkaException) as error:
                        log.warning("the progress of a replay was not saved", error=str(error))
        self.forget(partitions)

    def forget(self, partitions: Iterable[int]) -> None:
        """Stop working on what another process owns now."""
        for number in tuple(partitions):
            for replay_id in self._known.pop(number, {}):
                self._close(replay_id)
                self._retry_at.pop(replay_id, None)
            self._whole.discard(number)

    def work(self, now: float) -> None:
        """Bring each replay a step further; `now` on a clock in seconds that only goes forward."""
        for number in self._whole:
            for known in tuple(self._known[number].values()):
                if known.ended:
                    self._close(known.replay_id)
                elif known.asked and now >= self._retry_at.get(known.replay_id, now):
                    self._try(number, known, now)
        metrics.RUNNING.set(len(self._works))
        metrics.STUCK.set(len(self._retry_at))

    def _try(self, number: int, known: Known, now: float) -> None:
        """Bring a replay further; whatever it fails with, the other replays go on."""
        try:
            if self._further(number, known):
                self._retry_at.pop(known.replay_id, None)
        except Exception as error:
            if not isinstance(error, KafkaUnavailable | KafkaException):
                log.exception("a replay failed unforeseen", replay_id=known.replay_id)
            elif known.progress is None or known.progress.error != str(error):
                log.warning("a replay does not move: it is tried again",
                            replay_id=known.replay_id, error=str(error))  # fmt: skip
            self._retry_at[known.replay_id] = now + _RETRY_SECONDS
            self._tell(number, known, str(error))

    def _further(self, number: int, known: Known) -> bool:
        """Whether it moved, or need not move now; one that is merely begun again is still stuck."""
        work, rest = self._works.get(known.replay_id), self._rest(known)
        if rest is not None:
            if known.progress is None or known.progress.status != rest or work is not None:
                self._settle(number, known, rest)
        elif work is None:
            if len(self._works) == _AT_ONCE:
                return True  # others have their turn
            self._begin(number, known)
            return False
        elif not work.step():
            self._learn(number, known, work.progress)
            self._close(known.replay_id)
        return True

    def _begin(self, number: int, known: Known) -> None:
        """Begin to work, unless the broker, which is told of it first, says that it is too late."""
        self._write(known, replace(known.progress or NOTHING, status="running", error=None))
        if self._rest(known) is None:
            self._works[known.replay_id] = self._open(known)

    def _rest(self, known: Known) -> ReplayStatus | None:
        """What a replay is to become that is not to run, or None."""
        if known.stopped is not None or known.clash:
            return "stopped"
        if self._broker_ms() - known.asked_at > self._kept_ms:
            return "expired"
        return "paused" if known.paused else None

    def _settle(self, number: int, known: Known, status: ReplayStatus) -> None:
        work, error = self._works.get(known.replay_id), _CLASH if known.clash else None
        if work is not None:
            progress = work.save(status, error)
        else:
            progress = replace(known.progress or NOTHING, status=status, error=error)
            self._write(known, progress)
        self._learn(number, known, progress)
        self._close(known.replay_id)

    def _tell(self, number: int, known: Known, error: str) -> None:
        """Show why a replay does not move, if that can be written, and go back to what is saved."""
        work = self._works.get(known.replay_id)
        saved = (work.saved if work else None) or known.progress
        # Not at rest, whatever was saved: a pause or a stop still has to be written.
        progress = replace(saved or NOTHING, status="running", error=error)
        self._learn(number, known, progress)
        self._close(known.replay_id)
        try:
            self._write(known, progress)
        except (KafkaUnavailable, KafkaException):
            log.warning("the reason was not written", replay_id=known.replay_id)

    def _learn(self, number: int, known: Known, progress: ReplayProgress) -> None:
        self._known[number][known.replay_id] = replace(known, progress=progress)

    def _close(self, replay_id: str) -> None:
        work = self._works.pop(replay_id, None)
        if work is not None:
            work.close()
