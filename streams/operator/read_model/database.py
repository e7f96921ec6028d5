"""The read model's file: SQLite in WAL mode, written by one thread, read by many.

It holds nothing that the topics do not: a file of another schema version, a damaged one or one
that is too old is thrown away and folded again (G6).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import structlog

T = TypeVar("T")
log = structlog.get_logger(__name__)

SCHEMA_VERSION = 5
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

# `record` is the record's value as it stood on the topic; columns beside it are what lists
# filter, order and count by.
_SCHEMA = """
CREATE TABLE jobs (
  job_id TEXT PRIMARY KEY, tenant_id TEXT NOT NULL, type TEXT NOT NULL, status TEXT NOT NULL,
  pool TEXT NOT NULL, scope TEXT NOT NULL, replay_of TEXT, part INTEGER NOT NULL,
  created_at INTEGER NOT NULL, ready_at INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX jobs_newest ON jobs (created_at, job_id);
CREATE INDEX jobs_of_tenant ON jobs (tenant_id, created_at, job_id);
CREATE INDEX jobs_of_tenant_by_status ON jobs (tenant_id, status, created_at, job_id);
CREATE INDEX jobs_by_status ON jobs (status, created_at, job_id);
CREATE INDEX jobs_by_type ON jobs (type, created_at, job_id);
CREATE INDEX jobs_ready ON jobs (ready_at) WHERE status = 'pending';
CREATE INDEX jobs_waiting ON jobs (type, created_at, job_id)
  WHERE status IN ('pending', 'scheduled', 'waiting');
CREATE INDEX jobs_of_scope ON jobs (tenant_id, scope);
CREATE INDEX jobs_by_replay ON jobs (replay_of) WHERE replay_of IS NOT NULL;
CREATE TABLE held (
  part INTEGER, pool TEXT, type TEXT, tenant_id TEXT, id TEXT NOT NULL, since INTEGER NOT NULL,
  record BLOB NOT NULL, PRIMARY KEY (part, pool, type, tenant_id));
CREATE INDEX held_newest ON held (since, id);
CREATE TABLE progress (
  job_id TEXT PRIMARY KEY, tenant_id TEXT NOT NULL, at INTEGER NOT NULL, value TEXT NOT NULL);
CREATE INDEX progress_by_age ON progress (at);
CREATE TABLE steps (
  job_id TEXT, incarnation INTEGER, name TEXT, position INTEGER NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (job_id, incarnation, name)) WITHOUT ROWID;
CREATE TABLE effects (
  tenant_id TEXT, scope TEXT, action TEXT, first_claimed_at INTEGER NOT NULL,
  record BLOB NOT NULL, PRIMARY KEY (tenant_id, scope, action)) WITHOUT ROWID;
CREATE TABLE dead_letters (
  id TEXT PRIMARY KEY, tenant_id TEXT NOT NULL, kind TEXT NOT NULL, stage TEXT NOT NULL,
  reason TEXT NOT NULL, topic TEXT, replayed INTEGER NOT NULL, place TEXT NOT NULL,
  part INTEGER NOT NULL, at INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX dead_letters_newest ON dead_letters (at, id);
CREATE INDEX dead_letters_to_replay ON dead_letters (place) WHERE kind = 'record' AND replayed = 0;
CREATE INDEX dead_letters_of_tenant ON dead_letters (tenant_id, at, id);
CREATE TABLE tenants (
  tenant_id TEXT, kind TEXT, id TEXT, record BLOB NOT NULL,
  PRIMARY KEY (tenant_id, kind, id)) WITHOUT ROWID;
CREATE TABLE quarantine (
  tenant_id TEXT, source TEXT, payload_hash TEXT, id TEXT NOT NULL, status TEXT NOT NULL,
  at INTEGER NOT NULL, record BLOB NOT NULL, PRIMARY KEY (tenant_id, source, payload_hash));
CREATE INDEX quarantine_by_id ON quarantine (id);
CREATE INDEX quarantine_newest ON quarantine (at, id);
CREATE INDEX quarantine_of_tenant ON quarantine (tenant_id, at, id);
CREATE TABLE rejections (
  id TEXT PRIMARY KEY, tenant_id TEXT, at INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX rejections_newest ON rejections (at, id);
CREATE INDEX rejections_of_tenant ON rejections (tenant_id, at, id);
CREATE TABLE duplicates (
  fingerprint TEXT PRIMARY KEY, tenant_id TEXT NOT NULL, at INTEGER NOT NULL,
  record BLOB NOT NULL);
CREATE INDEX duplicates_newest ON duplicates (at, fingerprint);
CREATE INDEX duplicates_of_tenant ON duplicates (tenant_id, at, fingerprint);
CREATE TABLE positions (
  topic TEXT, part INTEGER, topic_id TEXT NOT NULL, next_offset INTEGER NOT NULL,
  PRIMARY KEY (topic, part)) WITHOUT ROWID;
CREATE TABLE freshness (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), at INTEGER NOT NULL);
"""
_TABLES = {
    "jobs", "held", "progress", "steps", "effects", "dead_letters", "tenants", "quarantine",
    "rejections", "duplicates", "positions", "freshness",
}  # fmt: skip


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file itself is broken, not that it is busy or full."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in _DAMAGE


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All statements inside become true together, or none does."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        # The cause matters more than a rollback that fails on a broken file.
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
        """A connection to a sound file of this schema; anything else is rebuilt empty."""
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
        """Whether the file that the writer opened still stands at its path."""
        return self._opened is not None and self._identity() == self._opened

    @property
    def damaged(self) -> bool:
        """Whether a query found the file broken: the writer may never come to that page."""
        return self._damaged == self._generation

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def rebuild(self, reason: str) -> sqlite3.Connection:
        """Throw the file away and begin an empty one."""
        log.warning("read model is rebuilt from the topics", reason=reason, path=str(self.path))
        return self._create()

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query on this thread's own read-only connection, in one snapshot."""
        generation, connection = self._reader()
        connection.execute("BEGIN")
        try:
            return query(connection)
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                self._damaged = generation
            raise
        finally:
            connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close every thread's reading connection; nothing may be read after."""
        while self._readers:
            self._readers.pop().close()

    def _reader(self) -> tuple[int, sqlite3.Connection]:
        """This thread's connection, and the generation of the file that it reads."""
        held: tuple[int, sqlite3.Connection] | None = getattr(self._mine, "held", None)
        if held is not None and held[0] == self._generation:
            return held
        if held is not None:
            self._readers.remove(held[1])
            held[1].close()
        generation, connection = self._generation, self._connect(read_only=True)
        self._readers.append(connection)
        self._mine.held = (generation, connection)
        return generation, connection

    def _create(self) -> sqlite3.Connection:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        # Before the new file is there: who still reads an unlinked one must open anew.
        self._generation += 1
        connection = self._connect()
        self._opened = self._identity()
        connection.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version={SCHEMA_VERSION};COMMIT")
        return connection

    def _connect(self, *, read_only: bool = False) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}",
            uri=True, timeout=10, isolation_level=None, check_same_thread=False,
        )  # fmt: skip
        if not read_only:
            connection.execute("PRAGMA journal_mode=WAL")
            # A lost power cut loses the last commits, rows and offsets alike: read again.
            connection.execute("PRAGMA synchronous=NORMAL")
            # A deleted row's bytes are overwritten: a destroyed key must not stay in free pages.
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
    missing = _TABLES - {name for (name,) in rows}
    return f"tables missing: {', '.join(sorted(missing))}" if missing else None
