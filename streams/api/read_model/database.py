"""The read model's file: SQLite in WAL mode, written by one thread, read by many.

It holds nothing that the topics do not. So a file with another schema version, a damaged one or one
that is too old is deleted and folded again (G6).
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import structlog

from streams.api.rows.restricted import RestrictedConnection
from streams.api.tables import DERIVED, STORED, TABLES

T = TypeVar("T")
log = structlog.get_logger(__name__)

_CACHE_KIB = 32_768
_CHECKPOINT_PAGES = 16_000
"""At 64 MB, the journal is brought to the file: each batch writes many pages of the indexes again,
so it is cheaper to do that for several batches together."""
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_INDEXES = {name: sql for table in TABLES for name, sql in table.index_ddl.items()}
_SCHEMA = (
    "\n".join((*(each.ddl for each in STORED), *_INDEXES.values()))
    + """
CREATE TABLE positions (
  topic TEXT, part INTEGER, topic_id TEXT NOT NULL, next_offset INTEGER NOT NULL,
  PRIMARY KEY (topic, part)) WITHOUT ROWID;
CREATE TABLE freshness (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), at INTEGER NOT NULL);
"""
    + "\n".join(table.triggers for table in DERIVED)
)
_NAMES = {each.name for each in STORED} | {"positions", "freshness"}
_ROW_VERSION = 2
"""Raise this when rows get other values in the same columns: files are then built anew."""
_TOPICS = [table.topic for table in TABLES]
SCHEMA_VERSION = zlib.crc32(f"{_ROW_VERSION}{_TOPICS}{_SCHEMA}".encode()) >> 1
"""Differs whenever a table's declaration does; `>> 1` because `user_version` is signed."""


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error means that the file is broken, not that it is busy or full."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in _DAMAGE


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all statements inside together, or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        # Report the cause, not a rollback that fails on a broken file.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


class Database:
    """One read model on disk; `open_writer` and `rebuild` belong to the writing thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._generation = 0
        self._damaged = -1
        self._opened: tuple[int, int] | None = None
        self._mine = threading.local()
        self._readers: list[sqlite3.Connection] = []

    def open_writer(self) -> sqlite3.Connection:
        """Return a connection to a sound file of this schema; rebuild any other file empty."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.path.exists():
            return self._create()
        try:
            connection = self._connect()
            reason = _unsoundness(connection)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            reason = str(error)
        if reason is not None:
            return self.rebuild(reason)
        self._opened = self._identity()
        return connection

    def in_place(self) -> bool:
        """Return whether the file that the writer opened is still at its path."""
        return self._opened is not None and self._identity() == self._opened

    @property
    def damaged(self) -> bool:
        """Whether a query found the file broken: the writer may never read the broken page."""
        return self._damaged == self._generation

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def rebuild(self, reason: str) -> sqlite3.Connection:
        """Delete the file and begin an empty one."""
        log.warning("read model is rebuilt from the topics", reason=reason, path=str(self.path))
        return self._create()

    def drop_indexes(self, connection: sqlite3.Connection) -> None:
        """Leave out all indexes while very many rows are written.

        To write the rows, and then to make the indexes, takes half of the time.
        """
        with transaction(connection):
            for name in _INDEXES:
                connection.execute(f"DROP INDEX IF EXISTS {name}")

    def create_indexes(self, connection: sqlite3.Connection) -> None:
        """Create the indexes that are missing, also those that an earlier process left out."""
        present = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")
        missing = _INDEXES.keys() - {name for (name,) in present}
        if missing:
            # Sort in the file's own folder: the system's may be as small as 256 MB.
            folder = str(self.path.parent.absolute()).replace("'", "''")
            connection.execute(f"PRAGMA temp_store_directory = '{folder}'")
        # Of two indexes that seem as good, SQLite takes the one that was made last: keep the order.
        for name, sql in _INDEXES.items():
            if name in missing:
                connection.execute(sql)

    def read(
        self, query: Callable[[sqlite3.Connection], T], tenants: frozenset[str] | None = None
    ) -> T:
        """Run a query on this thread's own read-only connection, in one snapshot.

        With `tenants`, only their rows exist for the query.
        """
        generation, connection = self._reader(restricted=tenants is not None)
        if isinstance(connection, RestrictedConnection):
            connection.cover(tenants or frozenset())
        connection.execute("BEGIN")
        try:
            return query(connection)
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                self._damaged = generation
            raise
        finally:
            connection.execute("ROLLBACK")

    def release(self) -> None:
        """Close this thread's connections; a thread that ends keeps them open otherwise."""
        for _, connection in self._held().values():
            self._readers.remove(connection)
            connection.close()
        self._held().clear()

    def close(self) -> None:
        """Close every thread's reading connection; do not read afterwards."""
        while self._readers:
            self._readers.pop().close()

    def _reader(self, *, restricted: bool) -> tuple[int, sqlite3.Connection]:
        """Return this thread's connection, and the generation of the file that it reads."""
        held = self._held().get(restricted)
        if held is not None and held[0] == self._generation:
            return held
        if held is not None:
            self.release()
        factory = RestrictedConnection if restricted else sqlite3.Connection
        generation, connection = self._generation, self._connect(factory, read_only=True)
        if isinstance(connection, RestrictedConnection):
            connection.restrict(STORED)
        self._readers.append(connection)
        self._held()[restricted] = (generation, connection)
        return generation, connection

    def _held(self) -> dict[bool, tuple[int, sqlite3.Connection]]:
        """Return this thread's connections: of all rows, and of some tenants' rows alone."""
        held: dict[bool, tuple[int, sqlite3.Connection]] | None = getattr(self._mine, "held", None)
        if held is None:
            held = self._mine.held = {}
        return held

    def _create(self) -> sqlite3.Connection:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        # Raise this before the new file exists: readers of the deleted one must reconnect.
        self._generation += 1
        connection = self._connect()
        self._opened = self._identity()
        connection.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version={SCHEMA_VERSION};COMMIT")
        return connection

    def _connect(
        self, factory: type[sqlite3.Connection] = sqlite3.Connection, *, read_only: bool = False
    ) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}",
            uri=True,
            timeout=10,
            isolation_level=None,
            check_same_thread=False,
            factory=factory,
        )
        if not read_only:
            connection.execute("PRAGMA journal_mode=WAL")
            # A power cut loses the last commits, rows and offsets alike; they are read again.
            connection.execute("PRAGMA synchronous=NORMAL")
            # A row that is replaced is one that goes, too, for the triggers of derived tables.
            connection.execute("PRAGMA recursive_triggers=ON")
            connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
            connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
            # Overwrite the bytes of deleted rows: a destroyed key must not stay in free pages.
            connection.execute("PRAGMA secure_delete=ON")
        return connection


def _unsoundness(connection: sqlite3.Connection) -> str | None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != SCHEMA_VERSION:
        return f"its schema is version {version}, this release's is {SCHEMA_VERSION}"
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        return f"damaged: {verdict}"
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    missing = _NAMES - {name for (name,) in rows}
    return f"tables missing: {', '.join(sorted(missing))}" if missing else None
