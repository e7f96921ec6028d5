"""Tables in memory: the twin of the RocksDB ones, for tests and the topology test driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sortedcontainers import SortedDict

from streams.state.store import Changes, Checkpoint


class MemoryTables:
    """Lives as long as the object; `close` keeps the content, as a disk would."""

    def __init__(self) -> None:
        self._tables: dict[int, SortedDict] = {}
        self._checkpoint: Checkpoint | None = None

    def numbers(self) -> Sequence[int]:
        return sorted(self._tables)

    def get(self, table: int, key: bytes) -> bytes | None:
        found = self._tables.get(table)
        return None if found is None else found.get(key)

    def get_many(self, table: int, keys: Sequence[bytes]) -> list[bytes | None]:
        found = self._tables.get(table)
        return [None] * len(keys) if found is None else list(map(found.get, keys))

    def range(self, table: int, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        found = self._tables.get(table)
        if found is None or start >= end:
            return
        for key in found.irange(start, end, inclusive=(True, False)):
            yield key, found[key]

    def write(self, changes: Mapping[int, Changes], checkpoint: Checkpoint) -> None:
        for number, own in changes.items():
            table = self._tables.setdefault(number, SortedDict())
            for key, value in own.items():
                if value is None:
                    table.pop(key, None)
                else:
                    table[key] = value
        self._checkpoint = checkpoint

    def drop(self, table: int) -> None:
        self._tables.pop(table, None)

    def checkpoint(self) -> Checkpoint | None:
        return self._checkpoint

    def wipe(self) -> None:
        self._tables.clear()
        self._checkpoint = None

    def close(self) -> None:
        """Nothing is held open."""
