"""A state directory belongs to one process, which keeps there only what it still needs."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from streams.dispatcher.live_index import Live
from streams.dispatcher.stage import stage
from streams.errors import ConfigError, StoreDamaged
from streams.runtime import state_directory
from streams.runtime.stage import StoreSpec
from streams.runtime.state_directory import StateDirectory
from streams.runtime.topics import Changelog
from streams.settings import Settings
from streams.state.indexed import Index
from streams.state.rocksdb import RocksTables, remove_tables
from streams.state.store import Checkpoint
from streams.topology.load import load


def test_it_is_claimed_until_it_is_let_go(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    first = StateDirectory(settings, "dedup", 4)
    with pytest.raises(ConfigError, match="dedup/0 is in use by another process: give each"):
        StateDirectory(settings, "dedup", 4)
    StateDirectory(Settings(data_dir=tmp_path, instance="1"), "dedup", 4)
    del first
    StateDirectory(settings, "dedup", 4)


def test_a_disk_that_denies_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no directory")
    with pytest.raises(ConfigError, match=r"state/dedup/0: .*: give the process a disk"):
        StateDirectory(Settings(data_dir=tmp_path), "dedup", 4)


@pytest.mark.parametrize(
    ("spec", "layout"),
    [
        (StoreSpec("seen", "c", "window", 1_000), "HashLinkList"),
        (StoreSpec("jobs", "c"), "SkipList"),
    ],
)
def test_only_what_is_never_walked_is_hashed(tmp_path: Path, spec: StoreSpec, layout: str) -> None:
    directory = StateDirectory(Settings(data_dir=tmp_path), "dedup", 4)
    store = directory.open(spec, 0, Changelog("c", "id", 1_000))
    store.write({b"a": bytes(8)}, Checkpoint(1, 0))
    newest = max(directory.path(spec.name, 0).glob("OPTIONS-*"))
    table = newest.read_text().split('[CFOptions "0"]')[1]
    assert layout in table.split("memtable_factory=")[1].splitlines()[0]
    store.close()


@pytest.mark.parametrize(
    "other",
    [StoreSpec("seen", "c", "window", 2_000), StoreSpec("seen", "c")],
    ids=["another window", "another kind"],
)
def test_a_store_of_another_window_or_kind_is_begun_anew(tmp_path: Path, other: StoreSpec) -> None:
    directory = StateDirectory(Settings(data_dir=tmp_path), "dedup", 4)
    changelog = Changelog("c", "id", 1_000)
    store = directory.open(StoreSpec("seen", "c", "window", 1_000), 0, changelog)
    store.write({b"a": bytes(8)}, Checkpoint(1, 0))
    store.close()
    again = directory.open(other, 0, changelog)
    assert again.checkpoint() is None
    again.close()


def test_a_store_whose_index_has_another_shape_is_begun_anew(tmp_path: Path) -> None:
    directory = StateDirectory(Settings(data_dir=tmp_path), "dispatcher", 4)
    changelog = Changelog("jobs", "id", 1_000)

    def kept(shape: str) -> bool:
        spec = StoreSpec("jobs", "jobs", index=Index(shape, lambda _key, _value: {}))
        store = directory.open(spec, 0, changelog)
        was_kept = store.checkpoint() is not None
        store.write({b"a": b"row"}, Checkpoint(1, 0))
        store.close()
        return was_kept

    assert [kept("status"), kept("status"), kept("status at"), kept("status at")] == [
        False,
        True,
        False,
        True,
    ]


def test_the_shape_of_the_dispatchers_index_names_the_fields_of_its_entries() -> None:
    jobs = next(s for s in stage(load()).stores if s.name == "jobs")
    assert jobs.index is not None
    assert jobs.index.shape.split()[1:] == list(Live._fields)


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    return StateDirectory(Settings(data_dir=tmp_path), "dedup", 4)


def left(directory: StateDirectory, partition: int, hours: float, store: str = "seen") -> Path:
    """A closed store that was last written so many hours ago."""
    tables = directory.open_tables(store, partition, "the test's")
    tables.write({0: {b"a": b"x"}}, Checkpoint(1, 0))
    tables.close()
    path = directory.path(store, partition)
    at = time.time() - hours * 3_600
    for file in path.iterdir():
        os.utime(file, (at, at))
    return path


def test_only_stores_that_are_old_and_not_open_are_deleted(directory: StateDirectory) -> None:
    old, future, dropped = (
        left(directory, 0, 13),
        left(directory, 10, -13),
        left(directory, 1, 13, "a store no more"),
    )
    young, own = left(directory, 2, 11), left(directory, 3, 13, "jobs")
    (directory.path("seen", 7)).mkdir()  # a deletion that was interrupted
    kept = {own, directory.path("seen", 1)}
    with capture_logs() as logs:
        assert directory.remove_left(kept, 60)
    assert [path.exists() for path in (old, future, dropped)] == [False] * 3
    assert not directory.path("seen", 7).exists()
    assert len(logs) == 4
    for path in (young, own):
        tables = directory.open_tables(path.parent.name, int(path.name), "the test's")
        assert tables.get(0, b"a") == b"x"
        tables.close()


def test_what_is_no_store_of_this_process_is_not_deleted(
    directory: StateDirectory, tmp_path: Path
) -> None:
    """Another process may have the others open: each has claimed a directory of its own."""
    other = StateDirectory(Settings(data_dir=tmp_path, instance="1"), "dedup", 4)
    apart = StateDirectory(Settings(data_dir=tmp_path), "scheduler", 4)
    paths = [left(other, 0, 13), left(apart, 0, 13), left(directory, 0, 13).parent / "copy"]
    shutil.copytree(directory.path("seen", 0), paths[2])
    (directory.path("seen", 0).parent.parent / "clock").write_text("{}")
    assert directory.remove_left((), 60)
    assert [path.exists() for path in paths] == [True] * 3
    assert (directory.path("seen", 0).parent.parent / "clock").exists()


def test_stores_are_deleted_a_part_at_a_time(directory: StateDirectory) -> None:
    for partition in range(3):
        left(directory, partition, 13)
    rounds = 1
    while not directory.remove_left((), 0):
        rounds += 1
    assert rounds == 4, "one store in each, and none is left in the last"


def test_a_left_store_that_cannot_be_deleted_is_named_and_the_others_are(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, other = left(directory, 0, 13), left(directory, 1, 13)

    def remove(path: Path) -> None:
        if path != stuck:
            remove_tables(path)

    monkeypatch.setattr(state_directory, "remove_tables", remove)
    with capture_logs() as logs:
        assert directory.remove_left((), 60)
    assert (stuck.exists(), other.exists()) == (True, False)
    assert [(e["log_level"], e["path"]) for e in logs] == [
        ("warning", str(stuck)),
        ("info", str(other)),
    ]


def test_a_damaged_store_that_cannot_be_deleted_is_named_with_the_remedy(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun anew over and over, it would keep the stage from everything else."""
    path = left(directory, 0, 0)
    (path / "CURRENT").write_bytes(b"\x13" * 8)
    with pytest.raises(StoreDamaged):
        RocksTables(path, "the test's", directory._memory)
    with monkeypatch.context() as denied:
        denied.setattr(state_directory, "remove_tables", lambda path: None)
        with pytest.raises(ConfigError, match=f"{path}.*anew: delete this directory"):
            directory.open_tables("seen", 0, "the test's")
    directory.open_tables("seen", 0, "the test's").close()
