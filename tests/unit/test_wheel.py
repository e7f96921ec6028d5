"""A wheel works in an empty environment: it has the files that lie beside the packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from streams.serde.schemas import current

ROOT = Path(__file__).parents[2]
LOOK_UP = """
import sys, streams.schemas
print(streams.schemas.__file__)
id_ = int(sys.argv[1])
print(*(streams.schemas.schema(ref)["name"] for ref in (id_, "envelope", "job")))
"""

Python = Callable[..., str]
"""Runs Python with these arguments where the wheel alone is installed; returns what it prints."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    zipfile.ZipFile(wheel).extractall(_packages(folder / "venv"))
    return folder / "venv"


@pytest.fixture
def python(home: Path, tmp_path: Path) -> Python:
    # The wheel's dependencies come from here: a test installs nothing from a registry.
    needs = [path for path in sys.path if path.endswith("site-packages")]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([_packages(home), *needs])}

    def run(*arguments: str) -> str:
        command = [str(home / "bin/python"), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, check=True, env=environ
        )
        return done.stdout

    return run


def _packages(home: Path) -> str:
    return sysconfig.get_path("purelib", vars={"base": str(home)})


def test_it_has_the_schemas(home: Path, python: Python) -> None:
    file, names = python("-c", LOOK_UP, str(current("envelope").id)).splitlines()
    assert Path(file).is_relative_to(home)
    assert names.split() == ["tidegate.Envelope", "tidegate.Envelope", "tidegate.Job"]


def test_it_computes_sizes(python: Python) -> None:
    command = ("topology", "size", "--events", "100", "--jobs", "100", "--json")
    assert json.loads(python("-m", "streams.cli", *command))["partitions"] == 4
