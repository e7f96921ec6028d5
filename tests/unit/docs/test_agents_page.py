"""docs/agents.md shows the example's handler, and names tests that there are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from examples.agent_loop.app import agent

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/agents.md").read_text()
PROMISES = Path(__file__).with_name("test_agents_promises.py")
_TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


def test_the_page_shows_the_handler_of_the_example() -> None:
    assert re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE) == [
        inspect.getsource(agent)
    ]


def test_each_promise_is_shown_by_a_test_and_each_test_of_a_promise_is_named() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    known = {name for path in (ROOT / "tests").rglob("*.py") for name in _tests(path)}
    assert named - known == set()
    assert set(_tests(PROMISES)) - named == set()


def test_each_question_names_its_tests() -> None:
    for question in re.findall(r"^## (.*?\?)\n(.*?)(?=^## )", PAGE, re.DOTALL | re.MULTILINE):
        assert "Shown by `test_" in question[1], question[0]


def test_each_example_with_a_topology_is_listed() -> None:
    for topology in ROOT.glob("examples/*/topology.yaml"):
        assert f"](../examples/{topology.parent.name}/README.md)" in PAGE


def _tests(path: Path) -> list[str]:
    return _TEST.findall(path.read_text())
