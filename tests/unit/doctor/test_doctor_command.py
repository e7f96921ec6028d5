"""The doctor's command ends, whatever hangs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streams.cli import doctor
from streams.cli.main import application


def test_a_disk_that_hangs_is_told_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that opens a pipe waits for ever for a writer, as for a mount that is gone."""
    os.mkfifo(tmp_path / "dev.json")
    monkeypatch.setattr(doctor, "_MOST_SECONDS", 0.2)
    words = ["doctor", "--data-dir", str(tmp_path)]
    told = CliRunner().invoke(application(words), words)
    os.close(os.open(tmp_path / "dev.json", os.O_WRONLY))  # the thread goes on
    assert told.exit_code == 1
    assert "no answer came within 0.2 s" in " ".join(told.stdout.split())
