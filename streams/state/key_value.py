"""A key-value store's committed state: one table, kept until deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streams.state.store import Changes, Checkpoint, Tables

_TABLE = 0


class KeyValueBackend:
    """`Backend` over the first of some tables; timestamps of changes do not matter to it."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, key: bytes) -> bytes | None:
        return self._tables.get(_TABLE, key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._tables.get_many(_TABLE, keys)

    def range(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._tables.range(_TABLE, start, end)

    def write(self, changes: Changes, checkpoint: Checkpoint) -> None:
        entries = {key: value for key, (value, _) in changes.items()}
        self._tables.write({_TABLE: entries} if entries else {}, checkpoint)

    def checkpoint(self) -> Checkpoint | None:
        return self._tables.checkpoint()

    def wipe(self) -> None:
        self._tables.wipe()

    def close(self) -> None:
        self._tables.close()
