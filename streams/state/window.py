"""A window store's committed state: entries leave when the stream time has passed them by.

An entry is filed in a segment, one table for each half of the window, by its timestamp. Three
segments live at most beside the one being filled; an old one is dropped whole, which costs no
tombstones. An entry is gone, to a lookup, exactly when `stream time - timestamp >= window`;
the stream time is the one of the last write, never the wall clock.

An entry that is put again while an older one lives in another segment hides that one.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator, Sequence
from itertools import repeat

from streams.state.store import Changes, Checkpoint, Entry, Tables

_TIMESTAMP = struct.Struct(">q")
_BODY = _TIMESTAMP.size


class WindowBackend:
    """`Backend` over tables numbered by time; a stored value is timestamp, then value."""

    def __init__(self, tables: Tables, window_ms: int) -> None:
        self._tables = tables
        self._window = window_ms
        self._segment = max(1, window_ms // 2)
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
        self._drop_expired()

    def checkpoint(self) -> Checkpoint | None:
        return self._tables.checkpoint()

    def wipe(self) -> None:
        self._tables.wipe()
        self._stream_time, self._live = 0, []

    def close(self) -> None:
        self._tables.close()

    def _filed(self, changes: Changes) -> Iterator[Entry]:
        pack, size, oldest = _TIMESTAMP.pack, self._segment, self._stream_time - self._window
        for key, (value, timestamp) in changes.items():
            if value is None:
                for segment in self._live:
                    yield segment, key, None
            elif timestamp > oldest:
                yield timestamp // size, key, pack(timestamp) + value

    def _unless_expired(self, stored: bytes) -> bytes | None:
        timestamp: int = _TIMESTAMP.unpack_from(stored)[0]
        return None if self._stream_time - timestamp >= self._window else stored[_BODY:]

    def _drop_expired(self) -> None:
        oldest = self._stream_time - self._window
        while self._live and (self._live[-1] + 1) * self._segment - 1 <= oldest:
            self._tables.drop(self._live.pop())
