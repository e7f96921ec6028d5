"""Each example starts as its README says: its application loads, its topology names its jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.topology.load import load
from streams.worker.app_loader import load_app

ROOT = Path(__file__).parents[3]
TOPOLOGIES = sorted(ROOT.glob("examples/*/topology.yaml"))


@pytest.mark.parametrize("path", TOPOLOGIES, ids=lambda path: path.parent.name)
def test_an_example_starts_as_its_readme_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    name = path.parent.name
    command = f"--app examples.{name}.app:app --topology examples/{name}/topology.yaml"
    for text in (path, path.with_name("README.md"), path.with_name("app.py")):
        assert f"tidegate dev {command}" in text.read_text()
    app, topology = load_app(f"examples.{name}.app:app"), load(path)
    assert topology.routed_types | {*topology.job_types} <= {*app.jobs}
