"""A window store's committed state: entries expire by stream time, in whole segments.

A segment is the table of the entries of one window's length, by the time with which each value
begins. At most two are live: the one being filled, and the one before it until its last entry has
expired. Then that one is dropped whole, which costs no tombstones. A lookup treats an entry as
expired exactly when `stream time - its time >= window`. The stream time is that of the last write,
never the wall clock.

Smaller segments would hold fewer expired entries, but each live segment costs a lookup: most of
dedup's lookups find nothing, and so must ask every segment.

An entry that is put again while an older one is in another segment hides the older one.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

from streams.state.bundle import bundles, changes_in
from streams.state.store import Changes, Checkpoint, Logged, Tables, ToLog

_TIME = struct.Struct(">q")


class WindowBackend:
    """`Backend` over tables numbered by time; its changelog is written in bundles."""

    def __init__(self, tables: Tables, window_ms: int) -> None:
        self._tables = tables
        self._window = window_ms
        checkpoint = tables.checkpoint()
        self._stream_time = checkpoint.stream_time if checkpoint else 0
        self._live = sorted(tables.numbers(), reverse=True)

    def get(self, key: bytes) -> bytes | None:
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        found: list[bytes | None] = [None] * len(keys)
        missing: Sequence[int] = range(len(keys))
        for segment in self._live:
            if not missing:
                break
            wanted = keys if len(missing) == len(keys) else [keys[i] for i in missing]
            values = self._tables.get_many(segment, wanted)
            if any(values):
                for i, stored in zip(missing, values, strict=True):
                    found[i] = stored
                missing = [i for i in missing if found[i] is None]
        if len(missing) == len(keys):
            return found
        return [stored and self._unless_expired(stored) for stored in found]

    def range(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        newest_first = [
            zip(self._tables.range(segment, start, end), repeat(age), strict=False)
            for age, segment in enumerate(self._live)
        ]
        last = None
        for (key, stored), _ in heapq.merge(*newest_first, key=lambda e: (e[0][0], e[1])):
            value = None if key == last else self._unless_expired(stored)
            last = key
            if value is not None:
                yield key, value

    def write(self, changes: Changes, checkpoint: Checkpoint) -> None:
        self._stream_time = max(self._stream_time, checkpoint.stream_time)
        self._tables.write(self._filed(changes), checkpoint)
        self._live = sorted(self._tables.numbers(), reverse=True)
        while self._live and self._ended(self._live[-1]):
            self._tables.drop(self._live.pop())

    def to_changelog(self, changes: Changes) -> ToLog:
        return list(bundles(changes))

    def from_changelog(self, records: Logged) -> dict[bytes, bytes | None]:
        changes: dict[bytes, bytes | None] = {}
        for key, value in records:
            changes.update(changes_in(key, value))
        return changes

    def checkpoint(self) -> Checkpoint | None:
        return self._tables.checkpoint()

    def wipe(self) -> None:
        self._tables.wipe()
        self._stream_time, self._live = 0, []

    def close(self) -> None:
        self._tables.close()

    def _filed(self, changes: Changes) -> Mapping[int, Changes]:
        """Changes by segment."""
        values = [value for value in changes.values() if value is not None]
        if values and len(values) == len(changes):
            # A value begins with its time, most significant byte first, so bytes sort like times.
            oldest, newest = self._segment(min(values)), self._segment(max(values))
            if oldest == newest:
                return {newest: changes}
        filed: dict[int, dict[bytes, bytes | None]] = {segment: {} for segment in self._live}
        for key, value in changes.items():
            if value is not None:
                filed.setdefault(self._segment(value), {})[key] = value
            else:
                for segment in self._live:
                    filed[segment][key] = None
        return filed

    def _segment(self, value: bytes) -> int:
        return int(_TIME.unpack_from(value)[0]) // self._window

    def _ended(self, segment: int) -> bool:
        return (segment + 2) * self._window - 1 <= self._stream_time

    def _unless_expired(self, stored: bytes) -> bytes | None:
        time: int = _TIME.unpack_from(stored)[0]
        return None if self._stream_time - time >= self._window else stored
