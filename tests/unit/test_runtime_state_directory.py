"""A state directory belongs to one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import ConfigError
from streams.runtime.state_directory import StateDirectory
from streams.settings import Settings


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
