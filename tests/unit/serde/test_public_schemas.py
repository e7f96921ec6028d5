"""Schemas for consumers of one's own: by id and by name, from a checkout and from a wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from support.schema_versions import LATER, another_version

from streams.errors import ConfigError
from streams.schemas import schema
from streams.serde.schemas import by_id, current

ROOT = Path(__file__).parents[3]
LOOK_UP = """
import sys, streams.schemas
print(streams.schemas.__file__)
id_ = int(sys.argv[1])
print(*(streams.schemas.schema(ref)["name"] for ref in (id_, "envelope", "job")))
"""


def test_a_schema_is_found_by_its_id_and_the_newest_by_its_name(tmp_path: Path) -> None:
    with another_version("envelope", tmp_path, LATER):
        first, second = (s.id for s in by_id().values() if s.name == "envelope")
        assert schema("envelope") == schema(second) != schema(first)
        assert schema(first)["name"] == schema(second)["name"] == "tidegate.Envelope"


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
        [python, "-c", LOOK_UP, str(current("envelope").id)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join((where, needs))},
    )
    file, names = done.stdout.splitlines()
    assert Path(file).is_relative_to(home)
    assert names.split() == ["tidegate.Envelope", "tidegate.Envelope", "tidegate.Job"]


def _built(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_page_shows_the_id_and_the_version_of_events() -> None:
    page = (ROOT / "docs/read-the-events.md").read_text()
    newest = current("envelope")
    frame = newest.id.to_bytes(4, "big").hex(" ")
    assert f"| `{frame}` | id {newest.id}," in page
    assert f"`schemas/history/envelope.{newest.version}.avsc`" in page
    assert f"`schema({newest.id})`" in page
