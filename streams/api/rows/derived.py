"""A table that SQLite itself keeps in step with others, by triggers in each of their changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Derived:
    """A table of the read model that counts or sums up rows of other tables.

    No record becomes a row of it. Its triggers run in the transaction that changes the rows from
    which it is derived, so both always agree, whatever is read again. `columns` has all columns and
    the primary key in SQL. `triggers` are whole statements, and so is `beside`: the indexes of
    other tables that the triggers search, which must exist while rows are written.
    """

    name: str
    columns: str
    triggers: str = ""
    beside: str = ""
    indexes: Mapping[str, str] = field(default_factory=dict)
    belongs: str = "tenant_id {covered}"
    """As of a `Table`."""
    has_rowid: bool = False

    @property
    def ddl(self) -> str:
        """SQL that creates the table and its indexes, behind the other tables."""
        lines = [f"CREATE TABLE {self.name} ({self.columns}) WITHOUT ROWID;"]
        for name, definition in self.indexes.items():
            lines.append(f"CREATE INDEX {self.name}_{name} ON {self.name} {definition};")
        return "\n".join((*lines, self.beside))
