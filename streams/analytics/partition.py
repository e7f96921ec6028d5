"""One input partition's tables, and the offset up to which they are counted.

Both are written in one batch of RocksDB: a crash leaves both or neither. Whatever delivers records
may repeat them, skip some or stop anywhere, and still each is counted once: `accepts` says which
record continues what is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from sys import intern
from typing import Literal

import orjson

from streams.analytics.figures import Figures
from streams.analytics.windows import STEPS, WAITING, RowKey, mark_key, row_key
from streams.state.store import Checkpoint, Tables

Verdict = Literal["next", "again", "gap"]
Waiting = tuple[str, str, str, int]
"""Tenant, source and type of a job that waits for a worker, and since when in milliseconds."""


class CountedPartition:
    """The tables of one partition of one topic; not safe in threads, except for reading `tables`.

    `waiting` has the jobs that wait for a worker.
    """

    def __init__(self, tables: Tables, segment_ms: int) -> None:
        self.tables = tables
        self.segment_ms = segment_ms
        checkpoint = tables.checkpoint() or Checkpoint(0, 0)
        self.position = checkpoint.offset
        self.stream_time = checkpoint.stream_time
        self.waiting: dict[bytes, Waiting] = {
            key: _shared(orjson.loads(value))
            for key, value in tables.range(WAITING, b"", b"\xff" * 64)
        }
        self._rows: dict[tuple[int, bytes], Figures] = {}
        self._changed: set[tuple[int, bytes]] = set()
        self._marks: defaultdict[int, dict[bytes, bytes | None]] = defaultdict(dict)
        self._written = self.position

    def accepts(self, follows: int | None, offset: int) -> Verdict:
        """Whether the record at `offset` is the next one to count.

        `follows` is the offset behind the record that the broker gave before it; None if that is
        not known. Offsets between the two hold no committed record.
        """
        if offset < self.position:
            return "again"
        return "next" if follows is not None and follows <= self.position else "gap"

    def advance(self, offset: int, at: int) -> None:
        """Note that the record at `offset` is counted, or cannot be read.

        `at` is its time by the broker's clock, 0 if that is not known.
        """
        self.stream_time = max(self.stream_time, at)
        self.position = offset + 1

    def keeps(self, at: int) -> bool:
        """Whether there is still a segment for what happened at `at`."""
        return self._segment(at) is not None

    def figures(self, tenant_id: str, at: int, *dimensions: str) -> Iterator[Figures]:
        """The rows to change for something that happened at `at`; none if they are dropped."""
        segment = self._segment(at)
        if segment is None:
            return
        for step in STEPS.values():
            key = row_key(step, RowKey(tenant_id, step.start(at), dimensions))
            self._changed.add((segment, key))
            row = self._rows.get((segment, key))
            if row is None:
                stored = self.tables.get(segment, key)
                row = self._rows[segment, key] = Figures.decode(stored) if stored else Figures()
            yield row

    def mark(self, at: int, *parts: bytes) -> bytes | None:
        """What was last marked under a key, in the segment of `at`."""
        segment = self._segment(at)
        if segment is None:
            return None
        key = mark_key(parts)
        if key in self._marks[segment]:
            return self._marks[segment][key]
        return self.tables.get(segment, key)

    def set_mark(self, at: int, value: bytes | None, *parts: bytes) -> None:
        """Mark something under a key until the segment of `at` is dropped."""
        segment = self._segment(at)
        if segment is not None:
            self._marks[segment][mark_key(parts)] = value

    def wait(self, job: bytes, since: Waiting | None) -> None:
        """Note that a job waits for a worker, or with None that it does not."""
        if since is not None:
            self.waiting[job] = _shared(since)
            self._marks[WAITING][job] = orjson.dumps(since)
        elif self.waiting.pop(job, None) is not None:
            self._marks[WAITING][job] = None

    def write(self) -> None:
        """Write the changes and the position in one batch, and drop what is too old.

        Raises:
            StoreDamaged, ConfigError: as `RocksTables`.
        """
        if self._written == self.position:
            return
        changes: dict[int, dict[bytes, bytes | None]] = dict(self._marks)
        for segment, key in self._changed:
            changes.setdefault(segment, {})[key] = self._rows[segment, key].encode()
        self.tables.write(changes, Checkpoint(self.position, 0, self.stream_time))
        self._written = self.position
        # Hold only the rows in use: each takes up to 6 KiB, and there are as many as bodies name.
        self._rows = {at: self._rows[at] for at in self._changed}
        self._changed.clear()
        self._marks.clear()
        self._drop_old()

    def forget(self) -> None:
        """Forget what is not written: a record failed, and may have changed a part of its rows."""
        self.position = self._written
        self._rows.clear()
        self._changed.clear()
        self._marks.clear()

    def close(self) -> None:
        """Write what is counted, and close the tables."""
        self.write()
        self.tables.close()

    def _segment(self, at: int) -> int | None:
        segment = at // self.segment_ms + 1
        return segment if segment > WAITING and segment >= self._oldest else None

    @property
    def _oldest(self) -> int:
        """The segment before the one that stream time has reached."""
        return self.stream_time // self.segment_ms

    def _drop_old(self) -> None:
        for number in self.tables.numbers():
            if WAITING < number < self._oldest:
                self.tables.drop(number)


def _shared(waiting: Waiting) -> Waiting:
    """The same with one copy of each text: a million jobs may differ in the time alone."""
    tenant_id, source, type_, since = waiting
    return intern(tenant_id), intern(source), intern(type_), since
