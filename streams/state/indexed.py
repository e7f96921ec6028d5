"""A key-value store with an index beside its rows, which is on no changelog.

Each entry of the index follows from one row. Its key begins with NUL, as no row's key does. The
entries are written together with their rows, and are derived again while a changelog is folded in.
"""

from __future__ import annotations

from collections.abc import Callable

from streams.state.key_value import KeyValueBackend
from streams.state.store import Changes, Logged, Tables, ToLog

INDEX = b"\0"
"""How the keys of index entries begin."""

Derive = Callable[[bytes, bytes | None], Changes]
"""The changes of the index that go with a row's key and new value (None: it is deleted)."""


class IndexedBackend(KeyValueBackend):
    """`Backend` of rows and their index; whoever changes a row changes its entries, too."""

    def __init__(self, tables: Tables, derive: Derive) -> None:
        super().__init__(tables)
        self._derive = derive

    def to_changelog(self, changes: Changes) -> ToLog:
        return [each for each in changes.items() if not each[0].startswith(INDEX)]

    def from_changelog(self, records: Logged) -> dict[bytes, bytes | None]:
        rows = {key: value for key, value in records if not key.startswith(INDEX)}
        changes = dict(rows)
        for key, value in rows.items():
            changes |= self._outdated(key)
            changes |= self._derive(key, value)
        return changes

    def _outdated(self, key: bytes) -> dict[bytes, bytes | None]:
        """Deletions of the entries of the row as it is so far."""
        before = self.get(key)
        return {} if before is None else dict.fromkeys(self._derive(key, before))
