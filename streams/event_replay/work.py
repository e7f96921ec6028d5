"""One replay at work: it reads its events, asks for a job for each, and remembers how far it is.

A job's id follows from the replay and the event, and the dispatcher makes one job for an id. So
what is asked again after a crash, from the last progress on, makes no second job.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace

from streams.event_reader.counts import notes
from streams.event_reader.scan import Batch, Found, Scan
from streams.event_reader.selection import Selection
from streams.event_reader.span import Span
from streams.event_replay import metrics
from streams.event_replay.known import KINDS, TOPIC, Known
from streams.event_replay.pace import Pace
from streams.event_replay.sink import Sink
from streams.event_replay.spans import bounded, left, purged, selection
from streams.event_replay.verdicts import StillThere, Verdicts
from streams.process.wall_clock import wall_ms
from streams.serde import ids, keys
from streams.serde.codec import COMMAND, REPLAY
from streams.serde.records import Command, ReplayEvent
from streams.serde.replay_records import (
    DONE,
    RUNNING,
    ReplayProgress,
    ReplayRecord,
    ReplayStatus,
)
from streams.settings import Settings
from streams.topology.model import Topology

_SLICE = 500
_SAVED_EVERY_SECONDS = 1.0
_SAMPLES = 20
_NOTES = 50


class Work:
    """Carries a replay from its last progress on; `saved` is the progress that is durable.

    `now` is where its events lie now. What it has to read is in its progress, since it was asked
    for. `moved` tells whether it has read or asked for anything yet; until then, the progress keeps
    the error of before. After an exception it is of no more use: open another one.
    """

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        known: Known,
        now: Mapping[int, Span],
        there: StillThere,
        sink: Sink,
        author: str,
    ) -> None:
        assert known.asked is not None  # noqa: S101  nothing else is carried
        assert known.progress is not None  # noqa: S101  the desk has fixed what is to be read
        asked = bounded(known.asked, known.asked_at)
        self._known, self._asked, self._sink = known, asked, sink
        self._verdicts = Verdicts(topology, asked.job, there)
        self._partitions, self._author = topology.partitions, author
        self.saved, self.moved = known.progress, False
        self._spans = left(self.saved.spans, now)
        gone = tuple(purged(self.saved.spans, self._spans))
        self.progress = replace(
            self.saved,
            notes=(self.saved.notes + gone)[:_NOTES],
            started_at=self.saved.started_at or wall_ms(),
        )
        self._next = {number: span.first for number, span in self._spans.items()}
        # A part of the types alone has been seen since a resumption.
        resumed = self.saved.started_at > 0
        self._named = Selection(since=asked.since) if resumed else selection(asked)
        self._scan = Scan(settings, self._spans, selection(asked))
        self._batches = self._scan.batches()
        self._batch: Batch | None = None
        self._waiting, self._unreadable = deque[Found](), list[tuple[int, int]]()
        self._pace = Pace(asked.rate, time.monotonic())
        self._jobs = Counter(self.progress.jobs)
        self._skipped = Counter(self.progress.skipped)
        self._worked_before = self.saved.worked_ms
        self._opened, self._save_at = time.monotonic(), 0.0

    def step(self) -> bool:
        """Deal with the next events, as many as the rate allows; False once all are dealt with.

        Raises:
            KafkaUnavailable: Kafka does not answer, or no longer has what was to be read.
        """
        if not self._waiting and not self._read():
            self._settle(DONE)
            return False
        dealt = self._deal()
        self._sink.flush()
        self._pass(dealt)
        if not self._waiting and self._batch is not None:
            self._pass(self._batch.next)
            self._batch = None
        self.moved = self.moved or bool(dealt or self._scan.progress.passed)
        if time.monotonic() >= self._save_at:
            self.save(RUNNING, None if self.moved else self.progress.error)
        return True

    def save(self, status: ReplayStatus, error: str | None = None) -> ReplayProgress:
        """Write how far it is, and return it once that is durable.

        Raises:
            KafkaUnavailable: it was not acknowledged.
        """
        self._save_at = time.monotonic() + _SAVED_EVERY_SECONDS
        self.progress = replace(
            self.progress,
            status=status,
            spans=tuple(replace(s, next=self._next[s.partition]) for s in self.progress.spans),
            jobs=dict(self._jobs),
            skipped=dict(self._skipped),
            worked_ms=self._worked_before + self._worked_ms(),
            error=error,
        )
        write(self._sink, self._known, self.progress, self._author, self._partitions)
        self.saved = self.progress
        return self.progress

    def close(self) -> None:
        """End reading."""
        self._batches.close()

    def _read(self) -> bool:
        self._batch = next(self._batches, None)
        if self._batch is not None:
            self._waiting.extend(self._batch.found)
            self._unreadable += self._batch.unreadable
        return self._batch is not None

    def _pass(self, dealt: Mapping[int, int]) -> None:
        """Go on to the next offsets, and count the records before them that cannot be read."""
        self._next |= dealt
        left = [(number, at) for number, at in self._unreadable if at >= self._next[number]]
        unreadable = self.progress.unreadable + len(self._unreadable) - len(left)
        self._unreadable, self.progress = left, replace(self.progress, unreadable=unreadable)

    def _deal(self) -> Mapping[int, int]:
        """Ask for the jobs of a slice; return the next offsets of the partitions it lies in."""
        allowed, asked_for, events = self._pace.allowed(time.monotonic()), 0, 0
        dealt = dict[int, int]()
        for _ in range(min(_SLICE, len(self._waiting))):
            found = self._waiting[0]
            type_, reason = self._verdicts.judge(found.event)
            if type_ is None:
                self._skip(found, str(reason))
            elif asked_for == allowed:
                break
            else:
                self._ask(found, type_)
                asked_for += 1
            self._waiting.popleft()
            dealt[found.partition] = found.offset + 1
            events += 1
        self._pace.spend(asked_for)
        self.progress = replace(self.progress, events=self.progress.events + events)
        return dealt

    def _ask(self, found: Found, type_: str) -> None:
        event, replay_id = found.event, self._known.replay_id
        job_id = ids.replayed_event_job_id(event.tenant_id, replay_id, event.event_id)
        body = ReplayEvent(
            replay_id,
            found.record,
            type_,
            self._asked.priority,
            self._asked.note,
            self._known.asked_by,
            found.traceparent,
        )
        command = Command(ids.new_id("cmd"), event.tenant_id, job_id, 0, wall_ms(), body)
        home = ids.partition_for(event.tenant_id, self._partitions)
        self._sink.send("jobs.commands", event.tenant_id.encode(), COMMAND.encode(command), home)
        self._jobs[type_] += 1
        metrics.JOBS.inc()

    def _skip(self, found: Found, reason: str) -> None:
        self._skipped[reason] += 1
        if len(self.progress.samples) < _SAMPLES:
            samples = self.progress.samples | {found.event.event_id: reason}
            self.progress = replace(self.progress, samples=samples)

    def _settle(self, status: ReplayStatus) -> None:
        seen = replace(self._scan.progress, unreadable=self.progress.unreadable)
        said = tuple(notes(seen, self._spans, self._named))
        self.progress = replace(self.progress, notes=(self.progress.notes + said)[:_NOTES])
        self.save(status)

    def _worked_ms(self) -> int:
        return round((time.monotonic() - self._opened) * 1_000)


def write(sink: Sink, known: Known, progress: ReplayProgress, author: str, partitions: int) -> None:
    """Write a replay's progress, and return once it is durable.

    Raises:
        KafkaUnavailable: it was not acknowledged.
    """
    record = ReplayRecord(known.replay_id, wall_ms(), author, progress)
    key = keys.replay_key(known.replay_id, KINDS[ReplayProgress])
    home = ids.partition_for(known.replay_id, partitions)
    sink.send(TOPIC, key, REPLAY.encode(record), home)
    sink.flush()
