"""Schemas for consumers of one's own: by id and by name, from a checkout and from a wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from streams.errors import ConfigError
from streams.schemas import schema

ROOT = Path(__file__).parents[3]
LOOK_UP = """
import json, streams.schemas
print(streams.schemas.__file__)
print(json.dumps([streams.schemas.schema(ref)["name"] for ref in (3, 19, "envelope", "job")]))
"""


def test_a_schema_is_found_by_its_id_and_the_newest_by_its_name() -> None:
    locked = json.loads((ROOT / "schemas/ids.lock").read_text())
    ids = [int(id_) for id_, entry in locked.items() if entry["name"] == "envelope"]
    assert len(ids) > 1
    assert schema("envelope") == schema(max(ids)) != schema(min(ids))
    assert {schema(id_)["name"] for id_ in ids} == {"tidegate.Envelope"}


def test_an_unknown_schema_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"no schema has the id 9999.*install the version"):
        schema(9999)
    with pytest.raises(ConfigError, match="no schema named 'events'"):
        schema("events")


def test_a_wheel_in_an_empty_environment_has_the_schemas(tmp_path: Path) -> None:
    wheel = _built(tmp_path / "wheel")
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin/python"
    where = sysconfig.get_path("purelib", vars={"base": str(home)})
    zipfile.ZipFile(wheel).extractall(where)
    # The wheel's dependencies come from here: a test installs nothing from a registry.
    needs = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    done = subprocess.run(
        [python, "-c", LOOK_UP],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join((where, needs))},
    )
    file, names = done.stdout.splitlines()
    assert Path(file).is_relative_to(home)
    assert json.loads(names) == [
        "tidegate.Envelope",
        "tidegate.Envelope",
        "tidegate.Envelope",
        "tidegate.Job",
    ]


def _built(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel
