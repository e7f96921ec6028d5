"""Carries one replay, in a thread of its own, from its last progress to its end.

A job's id follows from the replay and the event, and the dispatcher makes one job for an id. So
what is asked for again after a crash, from the last progress on, makes no second job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from threading import Event, Semaphore

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from prometheus_client import Counter

from streams.errors import KafkaUnavailable
from streams.event_reader.counts import notes
from streams.event_reader.scan import Batch, Found, Scan
from streams.event_reader.selection import Selection
from streams.event_reader.span import Span
from streams.event_replay.eligibility import Closed, Eligibility
from streams.event_replay.pace import Pace
from streams.event_replay.progress import Progress
from streams.event_replay.replay import Replay
from streams.event_replay.sink import Sink
from streams.event_replay.spans import asked_spans, begun, left, selection
from streams.process.wall_clock import wall_ms
from streams.serde import ids
from streams.serde.codec import COMMAND
from streams.serde.records import Command, ReplayEvent
from streams.serde.replay_records import (
    DONE,
    EXPIRED,
    PAUSED,
    RUNNING,
    STOPPED,
    ReplayAsked,
    ReplayProgress,
    ReplayStatus,
)
from streams.settings import Settings
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

_JOBS = Counter("tidegate_operator_replay_jobs", "Jobs that replays of events asked for.")
_SAVED_EVERY_SECONDS = 1.0
_WAKE_SECONDS, _PACE_SECONDS = 0.5, 0.02
_CLASH = (
    "two different replays were asked for with one Idempotency-Key at the same time: ask for each "
    "again, with keys of their own"
)


_REVOKED = (
    "the token of who asked is revoked, or may not operate any more: ask for another replay with "
    "one of your own"
)


class Interrupted(Exception):
    """The replay is to stop, to pause or to be left to another process."""


@dataclass(frozen=True)
class Process:
    """What the replays of one process share; `author` is the process in the records of progress.

    Four replays read at once, of which two at most are stuck: the others always have two places.
    """

    settings: Settings
    topology: Topology
    admin: AdminClient
    closed: Closed
    author: str
    is_revoked: Callable[[str], bool] = lambda _: False
    """Whether a principal may operate no more: nothing more is done in its name."""
    places: Semaphore = field(default_factory=lambda: Semaphore(4))
    places_of_stuck: Semaphore = field(default_factory=lambda: Semaphore(2))


class Replaying:
    """One attempt to bring a replay to the state that is ordered.

    The carrier's thread sets `replay` to the newest orders, and `released` to True if another
    process is to go on: then the progress is saved, unless the replay is `lost` already. A replay
    is `stuck` if its last attempt failed and it has not moved since; `over` is set at last.
    """

    def __init__(self, process: Process, replay: Replay, stuck: bool) -> None:
        self.replay = replay
        self.stuck = stuck
        self.reading = self.released = self.lost = False
        self.over = Event()
        self._process = process
        self._sink = Sink(process.settings)
        self._partitions = process.topology.partitions
        self._progress = Progress(
            replay.replay_id,
            replay.progress or ReplayProgress(PAUSED, ()),
            self._sink,
            process.author,
            self._partitions,
        )
        self._place_of_stuck = ExitStack()
        self._save_at = 0.0

    @property
    def progress(self) -> ReplayProgress:
        """How far the replay is, as it stands on the topic."""
        return self._progress.saved

    def run(self) -> None:
        """Go on until the ordered state is reached, orders change, or something fails."""
        # A client whose broker died may never close: report a failure before it is closed.
        with ExitStack() as opened:
            try:
                self._obey(opened)
                self.stuck = False
            except Interrupted:
                pass
            except Exception as error:
                self._report(error)
        self.over.set()

    def _obey(self, opened: ExitStack) -> None:
        """Fix what the replay has to read, before it may be purged; then do what is ordered."""
        if self.replay.ordered != STOPPED and not self.progress.spans:
            self._progress.fix(begun(self._asked, self._spans_now()))
            self._progress.save(PAUSED)
        if self._ordered() == RUNNING:
            self._take_place(opened)
            self._save()
        if self._ordered() == RUNNING:
            self._read(opened)
        elif self.progress.status != self._ordered():
            self._rest()

    @property
    def _asked(self) -> ReplayAsked:
        assert self.replay.asked is not None  # noqa: S101  nothing else is carried
        return self.replay.asked

    def _ordered(self) -> ReplayStatus:
        """The state to bring about; a replay expires before the dispatcher forgets its jobs."""
        ordered = self.replay.ordered
        kept_ms = self._process.topology.finished_jobs_ms
        expired = self._sink.broker_ms - self.replay.asked_at > kept_ms
        if ordered == STOPPED or self._is_revoked:
            return STOPPED
        return EXPIRED if expired else ordered

    @property
    def _is_revoked(self) -> bool:
        return self._process.is_revoked(self.replay.asked_by)

    def _spans_now(self) -> dict[int, Span]:
        prefix = self._process.settings.topic_prefix
        return asked_spans(self._process.admin, prefix, self._partitions, self._asked)

    def _take_place(self, opened: ExitStack) -> None:
        self._sink.rest()
        self._place_of_stuck = opened.enter_context(ExitStack())
        if self.stuck:
            self._place_of_stuck.enter_context(self._held(self._process.places_of_stuck))
        opened.enter_context(self._held(self._process.places))
        opened.callback(setattr, self, "reading", False)
        self.reading = True

    @contextmanager
    def _held(self, places: Semaphore) -> Iterator[None]:
        while not places.acquire(timeout=_WAKE_SECONDS):
            self._check()
        try:
            yield
        finally:
            places.release()

    def _check(self) -> None:
        if self.released or self._ordered() != RUNNING:
            raise Interrupted

    def _read(self, opened: ExitStack) -> None:
        """Read the replay's events to their end, and ask for their jobs."""
        asked, process, before = self._asked, self._process, self.progress
        spans = left(before.spans, self._spans_now())
        chosen = selection(asked, self.replay.asked_at)
        self._progress.begin(spans)
        prefix, pace = process.settings.topic_prefix, Pace(asked.rate, time.monotonic())
        eligibility = Eligibility(
            process.admin, prefix, process.topology, asked.job, process.closed
        )
        scan = Scan(process.settings, spans, chosen)
        for batch in opened.enter_context(closing(scan.batches())):
            for partition, offset, found in _in_order(batch):
                self._deal(found, eligibility, pace)
                self._go_on({partition: offset + 1})
            self._go_on(batch.next)
        # A resumed replay has seen a part of the types alone.
        named = Selection(since=asked.since) if before.started_at else chosen
        seen = replace(scan.progress, unreadable=self._progress.unreadable)
        self._progress.note(notes(seen, spans, named))
        self._progress.save(DONE)

    def _go_on(self, next_: Mapping[int, int]) -> None:
        """Save the progress when that is due; stop if something else is ordered."""
        self._progress.go_on(next_)
        if self._ordered() != RUNNING and not self.released:
            self._rest()
        elif not self.lost and (self.released or time.monotonic() >= self._save_at):
            self._save()
        self._check()

    def _rest(self) -> None:
        if self._is_revoked and self.replay.stopped is None:
            self._progress.note((_REVOKED,))
        self._progress.save(self._ordered(), _CLASH if self.replay.clash else None)

    def _save(self) -> None:
        if self._progress.save(RUNNING, self.progress.error):
            self.stuck = False
            self._place_of_stuck.close()
        self._save_at = time.monotonic() + _SAVED_EVERY_SECONDS

    def _deal(self, found: Found | None, eligibility: Eligibility, pace: Pace) -> None:
        """Count an event, and ask for its job once the pace allows it."""
        if found is None:
            self._progress.count_unreadable()
            return
        type_, reason = eligibility.job_for(found.event)
        if type_ is None:
            self._progress.count_skipped(found.event.event_id, str(reason))
            return
        while not pace.allowed(time.monotonic()):
            self._go_on({})
            time.sleep(_PACE_SECONDS)
        pace.spend(1)
        self._ask(found, type_)
        self._progress.count_job(type_)

    def _ask(self, found: Found, type_: str) -> None:
        event, replay, asked = found.event, self.replay, self._asked
        job_id = ids.replayed_event_job_id(event.tenant_id, replay.replay_id, event.event_id)
        body = ReplayEvent(
            replay.replay_id,
            found.record,
            type_,
            asked.priority,
            asked.note,
            replay.asked_by,
            found.traceparent,
        )
        command = Command(ids.new_id("cmd"), event.tenant_id, job_id, 0, wall_ms(), body)
        home = ids.partition_for(event.tenant_id, self._partitions)
        self._sink.send("jobs.commands", event.tenant_id.encode(), COMMAND.encode(command), home)
        _JOBS.inc()

    def _report(self, error: Exception) -> None:
        """Show why the replay does not move, if that can be written and it is still ours."""
        self.stuck = True
        if self.lost:
            return
        said = {"replay_id": self.replay.replay_id, "error": str(error)}
        unforeseen = not isinstance(error, KafkaUnavailable | KafkaException)
        if unforeseen or self.progress.error != str(error):
            log.warning("a replay does not move: it is tried again", exc_info=unforeseen, **said)
        try:
            self._progress.report(str(error), Sink(self._process.settings))
        except (KafkaUnavailable, KafkaException):
            log.warning("the reason was not written", **said)


def _in_order(batch: Batch) -> list[tuple[int, int, Found | None]]:
    """Partition, offset and event of each record; None for one that this version cannot read."""
    items: list[tuple[int, int, Found | None]] = [(f.partition, f.offset, f) for f in batch.found]
    items += ((partition, offset, None) for partition, offset in batch.unreadable)
    return sorted(items, key=lambda item: item[:2])
