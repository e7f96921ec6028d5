"""The application that a page of the documents builds, in a new folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streams.new.project import make
from support.console_page import File, steps

ROOT = Path(__file__).parents[2]


def written(page: str, folder: Path) -> Path:
    """A new application whose files are those of a page, which has no other steps."""
    make(folder)
    for step in steps(page):
        assert isinstance(step, File)
        (folder / step.name).write_text(step.text)
    return folder


def own_tests(folder: Path) -> str:
    """What its tests print; they pass."""
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in the folder for the rest of the test: `app` is its module."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.delitem(sys.modules, "app", raising=False)
