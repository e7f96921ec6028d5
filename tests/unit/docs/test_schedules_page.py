"""docs/schedules.md shows the files of `schedules_page/`, which run as they are shown."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from streams.schedules.definition import OVERLAPS
from streams.worker.app import App

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/schedules.md").read_text()
SHOWN = Path(__file__).parent / "schedules_page"


def test_the_page_shows_the_application_and_its_tests_as_they_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert blocks == [(SHOWN / name).read_text() for name in ("reports.py", "test_reports.py")]


@pytest.mark.parametrize("name", inspect.signature(App.schedule).parameters)
def test_the_page_says_what_each_argument_means(name: str) -> None:
    assert name == "self" or f"`{name}" in PAGE


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_the_page_says_what_each_overlap_means(overlap: str) -> None:
    assert f"| `{overlap}` |" in PAGE
