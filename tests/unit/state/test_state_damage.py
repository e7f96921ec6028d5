"""A flipped byte in a store's files: it is found, or the store is as it was at its checkpoint."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pytest
from rocksdict import Rdict
from support.state_files import flip

from streams.errors import ConfigError, StoreDamaged
from streams.state.rocksdb import RocksTables, remove_tables
from streams.state.rocksdb_memory import RocksMemory
from streams.state.store import Backend, Checkpoint
from streams.state.window import WindowBackend

WINDOW = 1_000_000
WRITES, KEYS = 60, 20
History = dict[int, dict[bytes, bytes]]
"""Checkpoint to what the store held then."""


@contextmanager
def opened(path: Path) -> Iterator[Backend]:
    # Memory of its own: a cache that is shared knows blocks of the undamaged copy.
    tables = RocksTables(path, "the test's", RocksMemory(), walked=False)
    backend = WindowBackend(tables, WINDOW)
    try:
        yield backend
    finally:
        backend.close()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, History]:
    """A store as a killed process leaves it, with tables of an earlier run, and its history."""
    path, left = tmp_path_factory.mktemp("store") / "live", tmp_path_factory.mktemp("left") / "d"
    history: History = {0: {}}
    for run in range(3):
        with opened(path) as backend:
            for number in range(run * WRITES, (run + 1) * WRITES):
                value = number.to_bytes(8, "big")  # its time in the window
                changes = {b"key %10d" % (number * KEYS + n): value for n in range(KEYS)}
                backend.write(changes, Checkpoint(number + 1, 1, number))
                history[number + 1] = {**history[number], **changes}
            if run == 2:
                shutil.copytree(path, left)
    return left, history


@pytest.mark.parametrize("pattern", ["*.sst", "*.log", "MANIFEST-*", "CURRENT"])
@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_byte_does_no_silent_harm(
    killed: tuple[Path, History], tmp_path: Path, pattern: str, seed: int
) -> None:
    left, history = killed
    copy = tmp_path / "copy"
    shutil.copytree(left, copy)
    print(flip(copy, pattern, random.Random(seed)))
    keys = list(history[3 * WRITES])
    try:
        with opened(copy) as backend:
            checkpoint = backend.checkpoint()
            then = history[checkpoint.offset if checkpoint else 0]
            assert dict(backend.range(b"", b"\xff")) == then
            assert backend.get_many(keys) == [then.get(key) for key in keys]
        assert pattern in {"*.log", "MANIFEST-*"}, "only a log may end early without a word"
    except StoreDamaged:
        with pytest.raises(StoreDamaged, match="found damaged before"), opened(copy):
            pass


def test_no_byte_of_the_list_of_files_can_hide_one(tmp_path: Path) -> None:
    """A record's length that points behind the end makes RocksDB forget all from there on."""
    left, copy = tmp_path / "left", tmp_path / "copy"
    for number in range(2):
        with opened(left) as backend:
            backend.write({b"%d" % number: bytes(8)}, Checkpoint(number + 1, 1))
    (manifest,) = left.glob("MANIFEST-*")
    for at in range(manifest.stat().st_size):
        shutil.copytree(left, copy)
        with (copy / manifest.name).open("r+b") as file:
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 0x81]))
        with suppress(StoreDamaged), opened(copy) as backend:
            assert backend.get_many([b"0", b"1"]) == [bytes(8)] * 2, f"byte {at}"
        shutil.rmtree(copy)


@pytest.mark.parametrize("read", ["range", "get_many"])
def test_a_damaged_table_is_no_short_one(
    killed: tuple[Path, History], tmp_path: Path, read: str
) -> None:
    """RocksDB ends an iteration at a damaged block, and says why only to who asks."""
    left, history = killed
    copy = tmp_path / "copy"
    shutil.copytree(left, copy)
    flip(copy, "*.sst", random.Random(0))
    with opened(copy) as backend:
        reads: dict[str, Callable[[], object]] = {
            "range": lambda: list(backend.range(b"", b"\xff")),
            "get_many": lambda: backend.get_many(list(history[3 * WRITES])),
        }
        with pytest.raises(StoreDamaged):
            reads[read]()


@pytest.mark.parametrize(
    ("why", "raised", "afterwards"),
    [
        ("Corruption: block checksum mismatch", None, "found damaged before"),
        ("IO error: No space left on device", "give the process a disk it may write", None),
    ],
)
def test_a_store_closes_whatever_its_last_flush_says(
    killed: tuple[Path, History],
    tmp_path: Path,
    why: str,
    raised: str | None,
    afterwards: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A damaged one is rebuilt when it is opened next; a full disk is told of at once."""
    copy = tmp_path / "copy"
    shutil.copytree(killed[0], copy)
    tables = RocksTables(copy, "the test's", RocksMemory())

    class Failing:
        def __init__(self, table: Rdict) -> None:
            self._table = table

        def close(self) -> None:
            self._table.close()  # raises DbClosedError the second time, as rocksdict does
            raise Exception(why)

    monkeypatch.setattr(tables, "_tables", {n: Failing(t) for n, t in tables._tables.items()})
    with pytest.raises(ConfigError, match=raised) if raised else nullcontext():
        tables.close()
    tables.close()
    with pytest.raises(StoreDamaged, match=afterwards) if afterwards else nullcontext():
        RocksTables(copy, "the test's", RocksMemory()).close()


@pytest.mark.parametrize(
    ("why", "remedy"),
    [
        ("No space left on device", "a disk it may write"),
        ("Disk quota exceeded", "a disk it may write"),
        ("Input/output error", "put the state on another"),
        ("Too many open files", "ulimit -n"),
    ],
)
def test_what_says_nothing_of_the_store_does_not_cost_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str, remedy: str
) -> None:
    tables = RocksTables(tmp_path / "store", "the test's", RocksMemory())
    tables.write({0: {b"a": b"x"}}, Checkpoint(1, 0))

    class Full:
        def drop_column_family(self, name: str) -> None:
            raise Exception(f"IO error: {why}: While open a file")

    with monkeypatch.context() as full:
        full.setattr(tables, "_db", Full())
        with pytest.raises(ConfigError, match=f"{why}.*{remedy}"):
            tables.drop(0)
    tables.close()
    RocksTables(tmp_path / "store", "the test's", RocksMemory()).close()


@pytest.mark.parametrize("by", ["write", "range", "wipe"])
def test_a_store_found_damaged_in_use_can_be_begun_anew(tmp_path: Path, by: str) -> None:
    path, found = tmp_path / "store", False
    entries = {0: {b"%d" % i: b"x" * 100 for i in range(1_000)}}
    for offset in range(2):
        tables = RocksTables(path, "the test's", RocksMemory())
        tables.write(entries, Checkpoint(offset, 0))
        tables.close()
    flip(path, "*.sst", random.Random(0))
    tables = RocksTables(path, "the test's", RocksMemory())
    tables.write({0: {b"new": b"x"}}, Checkpoint(8, 0))  # so that closing has to flush
    tables._tables[0].compact_range(None, None)  # finds it; all writes are refused from now on
    use: dict[str, Callable[[], object]] = {
        "write": lambda: tables.write(entries, Checkpoint(9, 0)),
        "range": lambda: list(tables.range(0, b"", b"\xff")),
        "wipe": tables.wipe,
    }
    try:
        use[by]()
    except StoreDamaged:
        found = True
        tables.close()
    assert found
    remove_tables(path)
    RocksTables(path, "the test's", RocksMemory()).close()
