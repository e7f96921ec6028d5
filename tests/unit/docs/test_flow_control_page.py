"""docs/flow-control.md shows the files of `flow_control_page/`, which run as such."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from streams.topology.flow_control import FlowControl
from streams.topology.load import load

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/flow-control.md").read_text()
SHOWN = Path(__file__).parent / "flow_control_page"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_shows_the_application_its_topology_and_its_tests_as_they_run() -> None:
    assert blocks("python") == [(SHOWN / name).read_text() for name in ("desk.py", "test_desk.py")]
    assert blocks("yaml") == [(SHOWN / "desk.yaml").read_text()]
    assert load(SHOWN / "desk.yaml").routes[0].debounce


@pytest.mark.parametrize("name", [each.name for each in fields(FlowControl)])
def test_the_page_names_all_that_can_be_declared(name: str) -> None:
    assert f"`{name}`" in PAGE
