"""How far a replay is: what it has reached, and what of that is durable on the topic `replays`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from streams.event_reader.span import Span
from streams.event_replay.replay import KINDS, TOPIC
from streams.event_replay.sink import Sink
from streams.event_replay.spans import purged
from streams.process.wall_clock import wall_ms
from streams.serde import ids, keys
from streams.serde.codec import REPLAY
from streams.serde.replay_records import (
    PAUSED,
    RUNNING,
    ReplayProgress,
    ReplayRecord,
    ReplaySpan,
    ReplayStatus,
)

_NOTES, _SAMPLES = 50, 20


class Progress:
    """`saved` is durable, and so are the jobs of all events before it.

    `author` is this process in the records, `partitions` the number of those of `replays`.
    """

    def __init__(
        self, replay_id: str, saved: ReplayProgress, sink: Sink, author: str, partitions: int
    ) -> None:
        self.saved = self._reached = saved
        self._replay_id, self._sink = replay_id, sink
        self._author, self._partitions = author, partitions
        self._next: dict[int, int] = {}
        self._worked_from: float | None = None

    @property
    def unreadable(self) -> int:
        return self._reached.unreadable

    def fix(self, spans: tuple[ReplaySpan, ...]) -> None:
        """Set what the replay has to read."""
        self._reached = replace(self.saved, spans=spans)

    def begin(self, left: Mapping[int, Span]) -> None:
        """Begin to read what is left; note what was purged."""
        self._worked_from = time.monotonic() - self.saved.worked_ms / 1_000
        self._reached = replace(
            self.saved,
            spans=tuple(replace(s, next=left[s.partition].first) for s in self.saved.spans),
            started_at=self.saved.started_at or wall_ms(),
        )
        self.note(purged(self.saved.spans, left))

    def note(self, found: Iterable[str]) -> None:
        self._reached = replace(self._reached, notes=(*self._reached.notes, *found)[:_NOTES])

    def count_unreadable(self) -> None:
        self._reached = replace(self._reached, unreadable=self._reached.unreadable + 1)

    def count_job(self, type_: str) -> None:
        reached = self._reached
        jobs = _one_more(reached.jobs, type_)
        self._reached = replace(reached, events=reached.events + 1, jobs=jobs)

    def count_skipped(self, event_id: str, reason: str) -> None:
        reached = self._reached
        skipped, samples = _one_more(reached.skipped, reason), reached.samples
        if len(samples) < _SAMPLES:
            samples = samples | {event_id: reason}
        self._reached = replace(
            reached, events=reached.events + 1, skipped=skipped, samples=samples
        )

    def go_on(self, next_: Mapping[int, int]) -> None:
        """Set the first offset of partitions that is not dealt with."""
        self._next |= next_

    def save(self, status: ReplayStatus, error: str | None = None) -> bool:
        """Return once the jobs and then the progress are durable; True if the replay has moved.

        The error is dropped then.

        Raises:
            KafkaUnavailable: something was not acknowledged; the progress may be written.
        """
        self._sink.flush()
        before, worked_ms = self._reached.spans, self.saved.worked_ms
        spans = tuple(replace(s, next=self._next.get(s.partition, s.next)) for s in before)
        if self._worked_from is not None:
            worked_ms = round((time.monotonic() - self._worked_from) * 1_000)
        error = error if spans == before else None
        self._write(
            replace(self._reached, status=status, spans=spans, error=error, worked_ms=worked_ms)
        )
        return spans != before

    def report(self, error: str, sink: Sink) -> None:
        """Go back to what is saved, and write why the replay does not move.

        The topic may say that the replay is at rest, or not: so a pause is written once more.

        Raises:
            KafkaUnavailable: it was not acknowledged.
        """
        status: ReplayStatus = RUNNING if self.saved.spans else PAUSED
        self.saved = replace(self.saved, status=status, error=error)
        self._sink = sink
        self._write(self.saved)

    def _write(self, progress: ReplayProgress) -> None:
        record = ReplayRecord(self._replay_id, wall_ms(), self._author, progress)
        key = keys.replay_key(self._replay_id, KINDS[ReplayProgress])
        home = ids.partition_for(self._replay_id, self._partitions)
        self._sink.send(TOPIC, key, REPLAY.encode(record), home)
        self._sink.flush()
        self.saved = self._reached = progress


def _one_more(counts: Mapping[str, int], name: str) -> dict[str, int]:
    return {**counts, name: counts.get(name, 0) + 1}
