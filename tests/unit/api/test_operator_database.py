"""The read model's file: created, kept, thrown away when in doubt; read while it is written."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

import pytest

from streams.api.read_model import positions
from streams.api.read_model.database import Database, is_damage, transaction
from streams.api.read_model.positions import MAX_AGE_MS, Span, Untrusted

NOW = 1_800_000_000_000
HERE = ("jobs", 0)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "deep" / "m.sqlite")


def add(connection: sqlite3.Connection, id_: str) -> None:
    connection.execute("INSERT INTO progress VALUES (?, 'acme', 'run_1', 1, 1, '')", (id_,))


def seen(database: Database) -> list[str]:
    return database.read(
        lambda db: [row[0] for row in db.execute("SELECT job_id FROM progress ORDER BY job_id")]
    )


def test_a_sound_file_is_kept(database: Database) -> None:
    first = database.open_writer()
    add(first, "kept")
    first.close()
    database.open_writer().close()
    assert seen(database) == ["kept"]
    database.close()


def test_a_file_with_one_broken_page_is_thrown_away_before_it_answers(database: Database) -> None:
    connection = database.open_writer()
    with transaction(connection):
        for n in range(3_000):
            add(connection, f"letter-{n:04}")
    connection.close()
    raw = bytearray(database.path.read_bytes())
    # The last page: some leaf, of which nothing at the file's beginning tells.
    raw[-4096:] = bytes(4096)
    database.path.write_bytes(raw)
    database.open_writer().close()
    assert seen(database) == []
    database.close()


def test_a_file_that_breaks_while_it_is_open_is_noticed_by_who_reads_it(database: Database) -> None:
    connection = database.open_writer()
    add(connection, "old")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with database.path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(database.path.stat().st_size - 4096))
    with pytest.raises(sqlite3.DatabaseError, match="malformed"):
        seen(database)
    assert database.damaged
    connection.close()
    database.rebuild("for the test").close()
    assert (database.damaged, seen(database)) == (False, [])
    database.close()


def test_readers_in_all_threads_see_the_new_file_after_a_rebuild(database: Database) -> None:
    with ThreadPoolExecutor(3) as pool:
        connection = database.open_writer()
        add(connection, "old")
        assert list(pool.map(lambda _: seen(database), range(6))) == [["old"]] * 6
        connection.close()
        rebuilt = database.rebuild("for the test")
        add(rebuilt, "new")
        assert list(pool.map(lambda _: seen(database), range(6))) == [["new"]] * 6
        rebuilt.close()
        database.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_gone_or_another_is_noticed_and_readers_follow_the_new_one(
    database: Database, replaced: bool
) -> None:
    connection = database.open_writer()
    add(connection, "old")
    assert seen(database) == ["old"]
    assert database.in_place()
    other = database.path.with_name("other")
    other.write_bytes(b"")
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database.path}{suffix}").unlink()
    if replaced:
        other.rename(database.path)
    assert not database.in_place()
    connection.close()
    again = database.open_writer()
    add(again, "new")
    assert seen(database) == ["new"]
    assert database.in_place()
    again.close()
    database.close()


def test_readers_cannot_write(database: Database) -> None:
    database.open_writer().close()
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        database.read(lambda db: add(db, "x"))
    database.close()


def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    connection = database.open_writer()
    with pytest.raises(sqlite3.IntegrityError), transaction(connection):
        list(map(add, [connection] * 2, ["twice", "twice"]))
    assert connection.execute("SELECT count(*) FROM progress").fetchone() == (0,)
    connection.close()


def test_a_busy_or_full_file_is_not_a_damaged_one(tmp_path: Path) -> None:
    broken = tmp_path / "b.sqlite"
    broken.write_bytes(b"x" * 4096)
    connection = sqlite3.connect(broken)
    with pytest.raises(sqlite3.DatabaseError) as damage:
        connection.execute("SELECT * FROM t")
    with pytest.raises(sqlite3.OperationalError) as other:
        sqlite3.connect(tmp_path / "none" / "x.sqlite")
    connection.close()
    assert is_damage(damage.value)
    assert not is_damage(other.value)


def test_it_resumes_where_rows_and_offsets_were_stored_together(database: Database) -> None:
    connection = database.open_writer()
    found = {HERE: Span("id", 0, 10), ("jobs", 1): Span("id", 3, 5)}
    assert positions.resume(connection, found, NOW) == {HERE: 0, ("jobs", 1): 3}
    positions.store(connection, found, {HERE: 7})
    assert positions.resume(connection, found, NOW + MAX_AGE_MS) == {HERE: 7, ("jobs", 1): 3}
    aged = {HERE: Span("id", 0, 10, begin=9), ("jobs", 1): Span("id", 3, 5, begin=2)}
    assert positions.resume(connection, aged, NOW) == {HERE: 9, ("jobs", 1): 3}
    connection.close()


def test_it_resumes_behind_records_that_were_purged_by_age(database: Database) -> None:
    """The marker of the last transaction is among them on a quiet partition, which is no loss."""
    connection = database.open_writer()
    quiet = ("dlq", 0)
    positions.resume(connection, {quiet: Span("id", 0, 8)}, NOW)
    positions.store(connection, {quiet: Span("id", 0, 8)}, {quiet: 7})
    assert positions.resume(connection, {quiet: Span("id", 8, 8)}, NOW) == {quiet: 8}
    connection.close()


@pytest.mark.parametrize(
    ("found", "now", "reason"),
    [
        (Span("id", 0, 6), NOW, "lies outside 0 to 6"),
        (Span("id", 8, 10), NOW, "lies outside 8 to 10"),
        (Span("other", 0, 10), NOW, "deleted and made anew"),
        (Span("id", 0, 10), NOW + MAX_AGE_MS + 1, "away for so long"),
    ],
)
def test_what_does_not_continue_the_topics_is_not_trusted(
    database: Database, found: Span, now: int, reason: str
) -> None:
    connection = database.open_writer()
    before = {HERE: Span("id", 0, 10)}
    positions.resume(connection, before, NOW)
    positions.store(connection, before, {HERE: 7})
    with pytest.raises(Untrusted, match=reason):
        positions.resume(connection, {HERE: found}, now)
    connection.close()


def opened() -> Iterator[str]:
    """The paths that this process has open; other threads may close theirs meanwhile."""
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            yield os.readlink(link)


def test_threads_that_end_leave_no_connection_open(tmp_path: Path) -> None:
    database = Database(tmp_path / "model.sqlite")
    database.open_writer().close()

    def look() -> None:
        database.read(lambda db: db.execute("SELECT 1").fetchone())
        database.release()

    for _ in range(5):
        thread = Thread(target=look)
        thread.start()
        thread.join()
    assert not {path for path in opened() if path.startswith(str(tmp_path))}


def test_indexes_that_are_made_after_a_rebuild_are_chosen_as_those_of_a_new_file(
    database: Database,
) -> None:
    """SQLite chooses by the order in which they were made if nothing else decides."""
    with closing(database.open_writer()) as connection:
        made = index_names(connection)
        database.drop_indexes(connection)
        assert len(index_names(connection)) < len(made)
        database.create_indexes(connection)
        assert index_names(connection) == made


def index_names(connection: sqlite3.Connection) -> list[str]:
    """The indexes of each table, in the order in which they were made."""
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'index' ORDER BY tbl_name, rowid"
    )
    return [name for (name,) in found]
