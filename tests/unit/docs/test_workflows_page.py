"""docs/workflows.md shows the files of `workflows_page/`, which run as they are shown."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from streams import Outcome
from streams.topology.load import load
from streams.worker.handler.spawning import Spawning

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/workflows.md").read_text()
SHOWN = Path(__file__).parent / "workflows_page"
CALLS = [name for name in vars(Spawning) if not name.startswith("_")]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_shows_the_application_and_its_tests_as_they_run() -> None:
    assert blocks("python") == [
        (SHOWN / name).read_text() for name in ("billing.py", "test_billing.py")
    ]


@pytest.mark.parametrize("call", CALLS)
def test_the_page_names_every_call_with_its_arguments(call: str) -> None:
    assert f"`ctx.{call}(" in PAGE
    for name in inspect.signature(getattr(Spawning, call)).parameters:
        assert name in ("self", "type", "input", "jobs") or f"`{name}" in PAGE


@pytest.mark.parametrize("name", [field.name for field in fields(Outcome)])
def test_the_page_names_what_an_outcome_has(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_the_ceilings_are_those_of_the_built_in_topology() -> None:
    (shown,) = blocks("yaml")
    ceilings = yaml.safe_load(shown)["workflows"]
    now = load().workflows
    assert ceilings == {"most_children": now.most_children, "most_levels": now.most_levels}
