"""What RocksDB's tables promise beside those in memory: whose they are, damage, memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rocksdict import DbClosedError

from streams.errors import ConfigError, StoreDamaged
from streams.runtime import restoring_store
from streams.runtime.restoring_store import Restoring
from streams.runtime.topics import Changelog
from streams.state.key_value import KeyValueBackend
from streams.state.rocksdb import RocksTables, remove_tables
from streams.state.rocksdb_memory import RocksMemory
from streams.state.store import Checkpoint

MEMORY = RocksMemory()


def test_another_identity_is_a_damaged_store(tmp_path: Path) -> None:
    RocksTables(tmp_path / "s", "4 partitions", MEMORY).close()
    with pytest.raises(StoreDamaged, match="8 partitions"):
        RocksTables(tmp_path / "s", "8 partitions", MEMORY)
    RocksTables(tmp_path / "s", "4 partitions", MEMORY).close()


@pytest.mark.parametrize("victim", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_broken_files_are_told_as_damage_and_a_removed_store_is_new(
    tmp_path: Path, victim: str
) -> None:
    path = tmp_path / "s"
    for _ in range(2):
        tables = RocksTables(path, "test", MEMORY)
        tables.write({0: {b"%d" % i: b"x" * 100 for i in range(1_000)}}, Checkpoint(1, 0))
        tables.close()
    for file in path.glob(victim):
        file.write_bytes(b"\x13" * max(1, file.stat().st_size))
    with pytest.raises(StoreDamaged, match=str(path)):
        RocksTables(path, "test", MEMORY).get(0, b"7")
    with pytest.raises(StoreDamaged):
        RocksTables(path, "test", MEMORY)
    remove_tables(path)
    tables = RocksTables(path, "test", MEMORY)
    assert tables.checkpoint() is None
    tables.close()


def test_damage_where_it_says_whose_it_is_does_not_leave_it_in_use(tmp_path: Path) -> None:
    """Whoever is told of the damage begins it anew at once, and must not find it locked."""
    path = tmp_path / "s"
    for offset in (1, 2):
        tables = RocksTables(path, "test", MEMORY)
        tables.write({}, Checkpoint(offset, 0))
        tables.close()
    for file in path.glob("*.sst"):
        file.write_bytes(file.read_bytes().replace(b"format", b"fOrmat"))
    try:
        RocksTables(path, "test", RocksMemory())
    except StoreDamaged:
        remove_tables(path)
        RocksTables(path, "test", MEMORY).close()
    else:
        pytest.fail("the damage was not found")


def test_a_store_that_was_wiped_in_part_is_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = RocksTables(tmp_path / "s", "test", MEMORY)
    tables.write({0: {b"a": b"1"}, 1: {b"b": b"1"}}, Checkpoint(7, 0))

    def killed(*_: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as first:
        first.setattr(tables, "drop", killed)
        with pytest.raises(InterruptedError):
            tables.wipe()
    tables.close()
    again = RocksTables(tmp_path / "s", "test", MEMORY)
    assert again.checkpoint() is None
    store = Restoring("s", 0, KeyValueBackend(again), Changelog("c", "id", 1_000))
    restoring_store.begin(store, 3, 9, 0)
    assert (store.next, store.left) == (3, 6)
    assert list(again.numbers()) == [], "what was there would be folded over"
    again.close()


def test_a_half_removed_database_is_never_taken_for_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its list of files, RocksDB begins a new one and replays the old one's log into it."""
    path, unlink = tmp_path / "s", Path.unlink
    tables = RocksTables(path, "test", MEMORY)
    tables.write({0: {b"a": b"1"}}, Checkpoint(7, 0))
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    tables.close()
    for kept in range(len(list(copy.iterdir()))):
        remove_tables(path)
        shutil.copytree(copy, path)
        left = iter(range(kept))

        def killed(file: Path) -> None:
            if next(left, None) is None:  # noqa: B023
                raise KeyboardInterrupt
            unlink(file)

        with monkeypatch.context() as interrupted:
            interrupted.setattr(Path, "unlink", killed)
            with pytest.raises(KeyboardInterrupt):
                remove_tables(path)
        with pytest.raises(StoreDamaged):
            RocksTables(path, "test", MEMORY)


def test_a_closed_store_does_not_look_empty(tmp_path: Path) -> None:
    tables = RocksTables(tmp_path / "s", "test", MEMORY)
    tables.write({0: {b"a": b"1"}}, Checkpoint(1, 0))
    tables.close()
    with pytest.raises(DbClosedError):
        tables.get(0, b"a")
    RocksTables(tmp_path / "s", "test", MEMORY).close()


def test_a_store_in_use_by_another_process_is_not_damaged(tmp_path: Path) -> None:
    tables = RocksTables(tmp_path / "s", "test", MEMORY)
    with pytest.raises(ConfigError, match="--instance"):
        RocksTables(tmp_path / "s", "test", MEMORY)
    tables.close()
    RocksTables(tmp_path / "s", "test", MEMORY).close()


@pytest.mark.parametrize("walked", [True, False])
@pytest.mark.parametrize("files", [True, False])
def test_what_was_walked_can_be_looked_up_and_the_other_way_round(
    tmp_path: Path, walked: bool, files: bool
) -> None:
    expected = {b"%d" % i * 16: b"x" for i in range(9)}
    tables = RocksTables(tmp_path / "s", "test", MEMORY, walked=walked)
    tables.write({0: expected}, Checkpoint(7, 0))
    if files:
        tables._tables[0].flush()
    shutil.copytree(tmp_path / "s", tmp_path / "killed")  # else all lies in the log alone
    tables.close()
    tables = RocksTables(tmp_path / "killed", "test", MEMORY, walked=not walked)
    assert dict(tables.range(0, b"", b"\xff")) == expected
    assert tables.get_many(0, list(expected)) == list(expected.values())
    assert tables.checkpoint() == Checkpoint(7, 0)
    tables.close()


@pytest.mark.parametrize("walked", [True, False])
def test_an_idle_store_takes_little_of_the_memory_that_all_share(
    tmp_path: Path, walked: bool
) -> None:
    memory = RocksMemory()
    tables = RocksTables(tmp_path / "s", "test", memory, walked=walked)
    tables.write({number: {b"a": b"1"} for number in range(3)}, Checkpoint(1, 0))
    assert memory.write_buffers.get_usage() < 4 * 1024 * 1024
    tables.close()


def test_table_options_outlive_a_reopening(tmp_path: Path) -> None:
    memory = RocksMemory()
    for _ in range(2):
        tables = RocksTables(tmp_path / "s", "test", memory)
        tables.write({0: {b"%d" % i: b"x" * 100 for i in range(1_000)}}, Checkpoint(1, 0))
        tables._tables[0].flush()
        before = memory.cache.get_usage()
        tables.get_many(0, [b"%d" % i for i in range(1_000)])
        assert memory.cache.get_usage() > before, "the shared block cache is not used"
        tables.close()
