"""A state directory belongs to one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import ConfigError
from streams.runtime.processor import StoreSpec
from streams.runtime.state_directory import StateDirectory
from streams.runtime.topics import Changelog
from streams.settings import Settings
from streams.state.store import Checkpoint


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
