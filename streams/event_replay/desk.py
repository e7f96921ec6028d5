"""The replays of the partitions that a process owns, and what is to be done about each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import structlog
from confluent_kafka import KafkaException

from streams.errors import KafkaUnavailable
from streams.event_reader.span import Question, Span
from streams.event_replay import metrics
from streams.event_replay.known import Known
from streams.event_replay.spans import Questions, begun
from streams.event_replay.turns import Turns
from streams.event_replay.work import Work
from streams.serde.replay_records import (
    EXPIRED,
    PAUSED,
    RUNNING,
    STOPPED,
    ReplayAsked,
    ReplayProgress,
    ReplayRecord,
    ReplayStatus,
)

log = structlog.get_logger(__name__)

_AT_ONCE = 4

_CLASH = (
    "two different replays were asked for with one Idempotency-Key at the same time: ask for each "
    "again, with keys of their own"
)

NOTHING = ReplayProgress(PAUSED, ())
"""The progress of a replay that has not found out yet what it has to read."""

Ask = Callable[[ReplayAsked], Question]
Open = Callable[[Known, Mapping[int, Span]], Work]
Write = Callable[[Known, ReplayProgress], None]


class Desk:
    """Folds what is known, opens and closes works; one thread alone uses it.

    `author` is this desk in the records that it writes. A replay ends `kept_ms` after it was asked
    for: as long the dispatcher knows each of its jobs, and makes none a second time. `ask` asks
    where the events of a replay lie, without waiting; `open_` begins a work; `write` writes the
    progress of a replay that has no work. The last two raise `KafkaUnavailable` or
    `KafkaException`. `broker_ms` tells when a broker took the newest record that was written, and
    `clock` seconds that only go forward.
    """

    def __init__(
        self,
        author: str,
        kept_ms: int,
        ask: Ask,
        open_: Open,
        write: Write,
        broker_ms: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._author = author
        self._kept_ms = kept_ms
        self._broker_ms = broker_ms
        self._open = open_
        self._write = write
        self._clock = clock
        self._known: dict[int, dict[str, Known]] = {}
        self._open_ids: dict[int, dict[str, None]] = {}
        self._whole: set[int] = set()
        self._works: dict[str, Work] = {}
        self._questions = Questions(ask)
        self._turns = Turns(clock)

    @property
    def partitions(self) -> list[int]:
        return list(self._known)

    @property
    def busy(self) -> bool:
        return bool(self._works or self._questions)

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
        self._open_ids.setdefault(partition, {})[record.replay_id] = None

    def read_to_end(self, partition: int) -> None:
        """Begin to work: everything that was written about this partition's replays is known."""
        self._known.setdefault(partition, {})
        self._whole.add(partition)

    def give_back(self, partitions: Iterable[int]) -> None:
        """Save the progress of what is at work, so that the next owner goes on from there."""
        for number in partitions:
            for known in self._known.get(number, {}).values():
                if work := self._works.get(known.replay_id):
                    try:
                        work.save(RUNNING, work.progress.error)
                    except (KafkaUnavailable, KafkaException) as error:
                        log.warning("the progress of a replay was not saved", error=str(error))
        self.forget(partitions)

    def forget(self, partitions: Iterable[int]) -> None:
        """Stop working on what another process owns now."""
        for number in tuple(partitions):
            for replay_id in self._known.pop(number, {}):
                self._close(replay_id)
                self._turns.moved(replay_id)
            self._open_ids.pop(number, None)
            self._whole.discard(number)

    def work(self) -> None:
        """Bring each replay a step further whose turn it is, up to the first that fails."""
        homes = self._to_do()
        for replay_id in self._turns.due(homes):
            if not self._try(homes[replay_id], replay_id):
                break
        metrics.RUNNING.set(len(self._works))
        metrics.STUCK.set(self._turns.stuck)

    def _to_do(self) -> dict[str, int]:
        """The replays that are not at their end, each with its partition."""
        found = dict[str, int]()
        for number in self._whole:
            open_ids = self._open_ids.get(number, {})
            for known in [self._known[number][replay_id] for replay_id in open_ids]:
                if known.ended:
                    self._close(known.replay_id)
                    self._turns.moved(known.replay_id)
                    del open_ids[known.replay_id]
                elif known.asked:
                    found[known.replay_id] = number
        return found

    def _try(self, number: int, replay_id: str) -> bool:
        """Bring a replay further; False if it fails. Whatever it fails with, the others go on."""
        began = self._clock()
        try:
            if self._further(number, self._known[number][replay_id]):
                self._turns.moved(replay_id)
            else:
                self._turns.waited(replay_id, began)
        except Exception as error:
            self._tell(number, self._known[number][replay_id], error)
            self._turns.failed(replay_id, began)
            return False
        return True

    def _further(self, number: int, known: Known) -> bool:
        """Whether it moved, or need not; one that has merely begun again has not."""
        rest = self._rest(known)
        if rest in (None, PAUSED) and not (known.progress and known.progress.spans):
            if (recorded := self._record(number, known)) is None:
                return False
            known = recorded
        work = self._works.get(known.replay_id)
        if rest is not None:
            self._settle(number, known, rest)
        elif work is None:
            return self._begin(known)
        elif not work.step():
            self._learn(number, known, work.progress)
            self._close(known.replay_id)
        elif not work.moved:
            return False
        return True

    def _record(self, number: int, known: Known) -> Known | None:
        """Fix what it has to read, since some of that may be purged while it waits.

        None as long as the brokers have not answered.
        """
        now = self._questions.answer(known.replay_id, _asked(known))
        if now is None:
            return None
        spans = begun(_asked(known), now)
        progress = replace(known.progress or NOTHING, status=PAUSED, spans=spans, error=None)
        self._write(known, progress)
        return self._learn(number, known, progress)

    def _begin(self, known: Known) -> bool:
        """Write that the replay runs, and work on it unless the broker says that it expired.

        True if other replays should go first.
        """
        if len(self._works) == _AT_ONCE:
            self._close(known.replay_id)
            return all(work.moved for work in self._works.values())
        now = self._questions.answer(known.replay_id, _asked(known))
        if now is not None:
            self._write(known, replace(known.progress or NOTHING, status=RUNNING))
            if self._rest(known) is None:
                self._works[known.replay_id] = self._open(known, now)
        return False

    def _rest(self, known: Known) -> ReplayStatus | None:
        """The state a stopped replay changes to, or None if it keeps running."""
        if known.stopped is not None or known.clash:
            return STOPPED
        if self._broker_ms() - known.asked_at > self._kept_ms:
            return EXPIRED
        return PAUSED if known.paused else None

    def _settle(self, number: int, known: Known, status: ReplayStatus) -> None:
        """Stop working on the replay, and write its state unless that stands there already."""
        work, error = self._works.get(known.replay_id), _CLASH if known.clash else None
        if work is not None:
            self._learn(number, known, work.save(status, error))
        elif known.progress is None or known.progress.status != status:
            progress = replace(known.progress or NOTHING, status=status, error=error)
            self._write(known, progress)
            self._learn(number, known, progress)
        self._close(known.replay_id)

    def _tell(self, number: int, known: Known, error: Exception) -> None:
        """Show why a replay does not move, if that can be written, and go back to what is saved."""
        work = self._works.get(known.replay_id)
        saved = (work.saved if work else None) or known.progress or NOTHING
        if not isinstance(error, KafkaUnavailable | KafkaException):
            log.exception("a replay failed unforeseen", replay_id=known.replay_id)
        elif saved.error != str(error):
            log.warning(
                "a replay does not move: it is tried again",
                replay_id=known.replay_id,
                error=str(error),
            )
        # Not at rest, whatever was saved: a pause or a stop still has to be written. Without spans
        # nothing was begun, and they are written before anything else.
        status: ReplayStatus = RUNNING if saved.spans else PAUSED
        progress = replace(saved, status=status, error=str(error))
        self._learn(number, known, progress)
        try:
            self._write(known, progress)
        except (KafkaUnavailable, KafkaException):
            log.warning("the reason was not written", replay_id=known.replay_id)
        self._close(known.replay_id)

    def _learn(self, number: int, known: Known, progress: ReplayProgress) -> Known:
        learnt = self._known[number][known.replay_id] = replace(known, progress=progress)
        return learnt

    def _close(self, replay_id: str) -> None:
        self._questions.drop(replay_id)
        if work := self._works.pop(replay_id, None):
            work.close()


def _asked(known: Known) -> ReplayAsked:
    assert known.asked is not None  # noqa: S101  nothing else is brought further
    return known.asked
