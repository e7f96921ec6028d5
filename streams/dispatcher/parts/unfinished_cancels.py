"""Cancels by events that one step could not finish.

Keys in the store `parts`: `C` number holds one, as JSON.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import islice

import orjson

from streams.dispatcher.job import is_live
from streams.runtime.processor import Context
from streams.serde.keys import after
from streams.serde.records import Job
from streams.state.store import KeyValueStore

_CANCEL = b"C"
KEYS = {_CANCEL: "cancels by events that are not finished"}
_COUNT = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class EventCancel:
    """The jobs that an event ends: those in a bucket that were made of earlier events.

    - `bucket` is its name in hexadecimal: that of a `type` of jobs, and of a value `by` which they
      are compared. `job_id` is the event's own job, which goes on.
    - `at` is the event's time (milliseconds). `until` is the number of the last job that came
      before the event; None if jobs do not come in the order of their events, so that times decide.
    - `behind` is the id of the last job that was looked at; `is_scanned` says that it was the last.
    - `began` is the id behind which the look began. One that did not begin at the first id goes on
      there after the last one, up to this id.
    """

    bucket: str
    type: str
    by: str
    event_id: str
    job_id: str
    at: int
    until: int | None
    reason: str
    behind: str = ""
    is_scanned: bool = False
    began: str = ""

    @property
    def to(self) -> str:
        """The id up to which it looks now; empty for the last one."""
        return self.began if self.behind < self.began else ""

    def looked(self, last: str | None) -> EventCancel:
        """The cancel after a look up to a job, or up to where it could look (None)."""
        if last is not None:
            return replace(self, behind=last)
        if self.began and not self.to:
            return replace(self, behind="")
        return replace(self, is_scanned=True)

    def covers(self, other: EventCancel) -> bool:
        """Whether it ends every job that an earlier cancel of its bucket ends, if its own is not
        made yet."""
        if (self.at, self.event_id) < (other.at, other.event_id):
            return False
        if self.until is None or other.until is None:
            return self.until is other.until
        return self.until >= other.until

    def means(self, job: Job, number: int) -> bool:
        """Whether the event ends a job of the bucket that has this number.

        A job without one (0) was made while no route cancelled its type: before the event, or after
        the routes changed again.
        """
        if job.event is None or job.job_id == self.job_id or not is_live(job):
            return False
        if self.until is None or not number:
            # Ids of events are ordered by time: records of one batch have one time.
            return (job.event_time, job.event.event_id) < (self.at, self.event_id)
        return number <= self.until and job.event_time <= self.at


class UnfinishedCancels:
    """The unfinished cancels of one partition, in the store and in memory."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._store: KeyValueStore = ctx.store("parts")
        self._all: dict[int, EventCancel] = {}
        self._unscanned: dict[int, None] = {}
        self._in_bucket: dict[str, dict[int, None]] = {}
        self._bys: Counter[tuple[str, str]] = Counter()
        for key, value in self._store.range(_CANCEL, after(_CANCEL)):
            self._note(_COUNT.unpack_from(key, 1)[0], EventCancel(**orjson.loads(value)))

    def __len__(self) -> int:
        return len(self._all)

    def put(self, number: int, cancel: EventCancel) -> None:
        """Keep a cancel under a number of its own, or what is left of it."""
        self._ctx.on_undo(self._note, number, self._all.get(number))
        self._store.put(_CANCEL + _COUNT.pack(number), orjson.dumps(asdict(cancel)))
        self._note(number, cancel)

    def remove(self, number: int) -> None:
        """Forget a cancel."""
        self._ctx.on_undo(self._note, number, self._all.get(number))
        self._store.delete(_CANCEL + _COUNT.pack(number))
        self._note(number, None)

    def in_bucket(self, name: str) -> list[tuple[int, EventCancel]]:
        """The cancels that concern a bucket, with their numbers."""
        return [(number, self._all[number]) for number in self._in_bucket.get(name, ())]

    def bys(self, type_: str) -> list[str]:
        """By what values the cancels compare jobs of a type; no route may do so any more."""
        return [by for found, by in self._bys if found == type_]

    def unscanned(self, limit: int) -> list[tuple[int, EventCancel]]:
        """Some of those that have jobs left to look at, with their numbers."""
        return self._some(self._unscanned, limit)

    def some(self, limit: int) -> list[tuple[int, EventCancel]]:
        """Some of all, with their numbers."""
        return self._some(self._all, limit)

    def _some(self, numbers: Iterable[int], limit: int) -> list[tuple[int, EventCancel]]:
        return [(number, self._all[number]) for number in islice(numbers, limit)]

    def _note(self, number: int, cancel: EventCancel | None) -> None:
        before = self._all.pop(number, None)
        if before is not None:
            self._unscanned.pop(number, None)
            self._bys -= Counter([(before.type, before.by)])
            numbers = self._in_bucket[before.bucket]
            del numbers[number]
            if not numbers:
                del self._in_bucket[before.bucket]
        if cancel is not None:
            self._all[number] = cancel
            self._bys[cancel.type, cancel.by] += 1
            self._in_bucket.setdefault(cancel.bucket, {})[number] = None
            if not cancel.is_scanned:
                self._unscanned[number] = None
