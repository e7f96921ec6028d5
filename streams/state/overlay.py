"""A store as a processor sees it: uncommitted writes on top of the committed state.

Writes stay here until the Kafka transaction that carries them is committed; only then does
the task write them to the backend, so the backend never holds what Kafka may still abort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sortedcontainers import SortedSet

from streams.state.store import Backend, Changes


class Overlay:
    """`KeyValueStore` over a backend; it belongs to one task, and so to one thread.

    `changes` are the writes of the transaction so far, the last one of each key.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.changes: dict[bytes, bytes | None] = {}
        self._ordered: SortedSet | None = None
        self._undo: list[tuple[bytes, bool, bytes | None]] = []  # key, was in `changes`, value
        self._all_new = True  # `changes` was empty at `mark`: `undo` can drop everything

    def get(self, key: bytes) -> bytes | None:
        return self.changes[key] if key in self.changes else self.backend.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values = self.backend.get_many(keys)
        if self.changes:
            for i, key in enumerate(keys):
                if key in self.changes:
                    values[i] = self.changes[key]
        return values

    def put(self, key: bytes, value: bytes) -> None:
        self.put_many({key: value})

    def put_many(self, changes: Changes) -> None:
        if not self._all_new:
            self._undo += [(k, k in self.changes, self.changes.get(k)) for k in changes]
        self.changes.update(changes)
        if self._ordered is not None:
            self._ordered.update(changes)

    def delete(self, key: bytes) -> None:
        self.put_many({key: None})

    def range(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        base = self.backend.range(start, end)
        if not self.changes or start >= end:
            return base
        if self._ordered is None:
            self._ordered = SortedSet(self.changes)
        own = self._ordered.irange(start, end, inclusive=(True, False))
        return self._merge(base, own)

    def mark(self) -> None:
        """Set the point to which `undo` returns, before the writes of one record or one batch."""
        self._undo.clear()
        self._all_new = not self.changes

    def undo(self) -> None:
        """Take back every write since `mark`."""
        if self._all_new:
            self.drop()
            return
        for key, here, before in reversed(self._undo):
            if here:
                self.changes[key] = before
                continue
            self.changes.pop(key, None)
            if self._ordered is not None:
                self._ordered.discard(key)
        self._undo.clear()

    def drop(self) -> None:
        """Forget the uncommitted writes, because they are aborted, or written to the backend."""
        self.changes = {}
        self._ordered = None
        self._undo.clear()

    def _merge(
        self, base: Iterator[tuple[bytes, bytes]], own: Iterator[bytes]
    ) -> Iterator[tuple[bytes, bytes]]:
        mine = next(own, None)
        for key, value in base:
            while mine is not None and mine < key:
                yield from self._own(mine)
                mine = next(own, None)
            if mine == key:
                yield from self._own(key)
                mine = next(own, None)
            else:
                yield key, value
        while mine is not None:
            yield from self._own(mine)
            mine = next(own, None)

    def _own(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        value = self.changes[key]
        if value is not None:
            yield key, value
