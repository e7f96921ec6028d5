"""A key-value store with an index beside its rows, which is on no changelog.

Each entry of the index follows from one row. Its key begins with NUL, as no row's key does. The
entries are written together with their rows, and are derived again while a changelog is folded in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streams.state.key_value import KeyValueBackend
from streams.state.store import Changes, Logged, Tables, ToLog

INDEX = b"\0"
"""How the keys of index entries begin."""

Derive = Callable[[bytes, bytes], Changes]
"""The entries that go with a row's key and value."""


@dataclass(frozen=True, slots=True)
class Index:
    """How a store's index follows from its rows.

    `shape` describes the keys and values of the entries. A local store that was written with
    another shape is begun anew, because an entry is only derived again when its row is.
    """

    shape: str
    derive: Derive


class IndexedBackend(KeyValueBackend):
    """`Backend` of rows and their index; whoever changes a row changes its entries, too."""

    def __init__(self, tables: Tables, derive: Derive) -> None:
        super().__init__(tables)
        self._derive = derive

    def to_changelog(self, changes: Changes) -> ToLog:
        return [each for each in changes.items() if not each[0].startswith(INDEX)]

    def from_changelog(self, records: Logged) -> dict[bytes, bytes | None]:
        """The rows in these records; `with_index` adds their entries."""
        return {key: value for key, value in records if not key.startswith(INDEX)}

    def with_index(self, rows: Changes) -> Changes:
        """Rows to be written, and how the index follows from the rows that they replace."""
        changes = dict(rows)
        for key, before in zip(rows, self.get_many(list(rows)), strict=True):
            if before is not None:
                changes |= dict.fromkeys(self._derive(key, before))
            value = rows[key]
            if value is not None:
                changes |= self._derive(key, value)
        return changes
