"""The official parser of AsyncAPI documents, installed beside this Python from its lock."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_SOURCE = Path(__file__).parent / "asyncapi"
_ERROR = 0
"""The severity of a diagnostic that makes a document invalid."""


@dataclass(frozen=True)
class Parsed:
    """What the parser says of a document: its errors, and the addresses of its channels."""

    errors: list[dict[str, Any]]
    channels: list[str]


def parsed(document: dict[str, Any], folder: Path) -> Parsed:
    """Have a document parsed; the test is skipped where node and npm are absent."""
    told = folder / "asyncapi.json"
    told.write_text(json.dumps(document))
    run = subprocess.run(
        ["node", "validate.js", str(told)],
        cwd=_installed(),
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = json.loads(run.stdout)
    errors = [each for each in found["diagnostics"] if each["severity"] == _ERROR]
    return Parsed(errors, found["channels"])


def _installed() -> Path:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("the official parser of AsyncAPI needs node and npm")
    folder = Path(sys.prefix) / "asyncapi-parser"
    locked = (_SOURCE / "package-lock.json").read_text()
    marked = folder / "installed-lock.json"
    with folder.with_suffix(".lock").open("w") as claimed:
        fcntl.flock(claimed, fcntl.LOCK_EX)  # another process of the tests may install it now
        if not marked.exists() or marked.read_text() != locked:
            shutil.copytree(_SOURCE, folder, dirs_exist_ok=True)
            words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            subprocess.run([npm, *words], cwd=folder, check=True, timeout=300)
            marked.write_text(locked)
    return folder
