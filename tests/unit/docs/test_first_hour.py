"""The application of docs/first-hour.md is whole: its tests pass, and each step finds its job."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support import page_application

from streams.testing import Bench
from streams.topology.doubts import doubts
from streams.topology.load import load
from streams.worker.app_loader import load_app

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/first-hour.md").read_text()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's application, in whose folder the test runs."""
    folder = page_application.written(PAGE, tmp_path / "desk")
    page_application.enter(folder, monkeypatch)
    return folder


def test_its_tests_pass(desk: Path) -> None:
    assert "1 passed" in page_application.own_tests(desk)


def test_its_topology_raises_no_doubt_and_every_type_of_it_gets_a_handler(desk: Path) -> None:
    topology = load(Path("topology.yaml"))
    assert doubts(topology) == []
    added = re.findall(r'^@app\.job\("(\w+)"\)', PAGE.split("## 10.")[1], re.MULTILINE)
    types = {*topology.job_types, *(route.job for route in topology.routes)}
    assert types == {*load_app("app:app").jobs, *added}


def test_each_job_that_a_step_submits_ends_as_it_says(desk: Path) -> None:
    given = re.findall(r"jobs submit (\w+) --tenant acme(?: --input '(.+?)')?", PAGE)
    ends = {
        "divide": {
            '{"a": 1, "b": 0}': "dead",
            '{"a": 6, "b": 3}': "succeeded",
            '{"a": "x"}': "dead",
        },
        "mail": {"": "succeeded"},
        "pay": {"": "succeeded"},
        "export": {"": "succeeded"},
    }
    assert {name for name, _ in given} == {*ends, "report"}
    with Bench(load_app("app:app"), topology=Path("topology.yaml")) as bench:
        for tool in ("email:send", "bank:pay"):
            bench.fake(tool, returns={})
        for name, text in given:
            if name != "report":
                job = bench.submit(name, json.loads(text or "{}"))
                assert job.run().status == ends[name][text], (name, text)
