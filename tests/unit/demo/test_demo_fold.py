"""Stores on disk against their changelogs: what was edited, lost or kept back is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from streams.demo.verdict.fold import Entry, compare, in_bundle
from streams.errors import TidegateError
from streams.state.bundle import bundles
from streams.state.key_value import KeyValueBackend
from streams.state.rocksdb import RocksTables
from streams.state.rocksdb_memory import RocksMemory
from streams.state.store import Checkpoint
from streams.state.window import WindowBackend
from streams.topology.model import StoreDeclaration

DAY_MS = 86_400_000
PLAIN = StoreDeclaration("parts", "dispatcher.parts.changelog")
WINDOW = StoreDeclaration("seen", "dedup.seen.changelog", "window")
ENTRIES: list[Entry] = [(0, b"a", b"1"), (1, b"b", b"2"), (3, b"a", b"3"), (4, b"b", None)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dispatcher-0" / "parts" / "2"


def seen(day: int) -> bytes:
    return (day * DAY_MS).to_bytes(8, "big")


def write(path: Path, offset: int, **values: bytes) -> None:
    tables = RocksTables(path, "test", RocksMemory())
    changes = {key.encode(): value for key, value in values.items()}
    KeyValueBackend(tables).write(changes, Checkpoint(offset, 0))
    tables.close()


def edit(path: Path, key: bytes, value: bytes) -> None:
    options = Options(raw_mode=True)
    families = dict.fromkeys(Rdict.list_cf(str(path), options), options)
    store = Rdict(str(path), options, column_families=families)
    store.get_column_family("0")[key] = value
    store.close()


def test_a_store_that_is_the_fold_of_its_changelog(path: Path) -> None:
    write(path, 5, a=b"3")
    found = compare(path, PLAIN, ENTRIES)
    assert (found.keys, found.differing, found.current) == (1, (), True)
    assert found.place == "dispatcher-0/parts/2"


def test_a_store_behind_its_changelog_is_held_against_what_it_has_folded(path: Path) -> None:
    write(path, 2, a=b"1", b=b"2")
    found = compare(path, PLAIN, ENTRIES)
    assert (found.differing, found.current) == ((), False)


def test_an_edited_value_is_found(path: Path) -> None:
    write(path, 5, a=b"3")
    edit(path, b"a", b"4")
    assert compare(path, PLAIN, ENTRIES).differing == ("b'a'",)


def test_an_entry_that_no_changelog_knows_is_found(path: Path) -> None:
    write(path, 5, a=b"3", c=b"9")
    assert compare(path, PLAIN, ENTRIES).differing == ("b'c'",)


def test_a_missing_entry_is_found(path: Path) -> None:
    write(path, 5)
    assert compare(path, PLAIN, ENTRIES).differing == ("b'a'",)


def test_a_window_store_is_compared_with_what_its_bundles_tell(tmp_path: Path) -> None:
    path = tmp_path / "dedup-0" / "seen" / "0"
    tables = RocksTables(path, "test", RocksMemory(), walked=False)
    store = WindowBackend(tables, 7 * DAY_MS)
    changes = {b"a": seen(10), b"b": seen(14) + b"counted", b"c": seen(14), b"dd": seen(14)}
    store.write(changes, Checkpoint(2, 0, 14 * DAY_MS))
    gone = {b"c": None}
    store.write(gone, Checkpoint(3, 0, 14 * DAY_MS))
    tables.close()
    logged = [*bundles(changes), *bundles(gone)]
    told: list[Entry] = [
        (offset, *change)
        for offset, (_, bundle) in enumerate(logged, start=1)
        for change in in_bundle(bundle)
    ]
    found = compare(path, WINDOW, told)
    assert (found.keys, found.differing, found.current) == (3, (), True)
    assert compare(path, WINDOW, told[1:]).differing == ("b'a'",)


def test_a_directory_that_is_no_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(TidegateError, match=r"nothing/here/0 cannot be opened"):
        compare(tmp_path / "nothing" / "here" / "0", PLAIN, [])
