"""`tidegate new`: a folder whose files work as they are."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from streams.cli.main import application
from streams.errors import ConfigError
from streams.new.project import make, project_name
from streams.topology.load import load

ROOT = Path(__file__).parents[3]
FILES = {
    "README.md",
    "app.py",
    ".gitignore",
    "pyproject.toml",
    "tests/test_app.py",
    "topology.yaml",
}


def test_it_names_what_it_made_and_what_comes_next(tmp_path: Path) -> None:
    folder = tmp_path / "Help Desk"
    ended = CliRunner().invoke(application(["new"]), ["new", str(folder)])
    assert ended.exit_code == 0
    for name in FILES:
        assert f"made {folder / name}\n" in ended.stdout
        assert (folder / name).is_file()
    assert f"  cd '{folder}'\n" in ended.stdout
    assert 'name = "help-desk"' in (folder / "pyproject.toml").read_text()


def test_its_code_parses_and_its_topology_loads(tmp_path: Path) -> None:
    assert set(make(tmp_path / "shop")) == FILES
    for name in ("app.py", "tests/test_app.py"):
        ast.parse((tmp_path / "shop" / name).read_text())
    (route,) = load(tmp_path / "shop/topology.yaml").routes
    assert route.job == "answer_ticket"
    assert yaml.safe_load((tmp_path / "shop/topology.yaml").read_text())["limits"]


def test_its_tests_pass(tmp_path: Path) -> None:
    make(tmp_path / "shop")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / "shop",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "warning" not in (ended.stdout + ended.stderr).lower()


def test_a_directory_with_content_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(ConfigError, match="is not empty: name a new or empty directory"):
        make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(ConfigError, match="is a file"):
        make(tmp_path / "mine.txt")


@pytest.mark.parametrize(
    ("folder", "name"), [("Help_Desk 2", "help-desk-2"), ("---", "app"), ("shop", "shop")]
)
def test_the_project_is_named_after_its_folder(tmp_path: Path, folder: str, name: str) -> None:
    assert project_name(tmp_path / folder) == name


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("tidegate", "a package that the application needs"),
        ("Streams", "a package that the application needs"),
        ("ingress", "a package that the application needs"),
        ("queue", "a module of Python's standard library"),
    ],
)
def test_a_name_that_hides_a_package_is_refused_with_the_reason(
    tmp_path: Path, folder: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=f"{why}.*name it {folder.lower()}-app"):
        make(tmp_path / folder)
    assert not (tmp_path / folder).exists()
