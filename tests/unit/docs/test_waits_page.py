"""docs/waits.md shows the files of `waits_page/`, which run and are type-checked as such."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streams.topology.load import load
from streams.worker.handler.waiting import Waiting

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/waits.md").read_text()
SHOWN = Path(__file__).parent / "waits_page"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_shows_the_application_and_its_tests_as_they_run() -> None:
    assert blocks("python") == [
        (SHOWN / name).read_text() for name in ("follow_up.py", "test_follow_up.py")
    ]
    assert blocks("yaml") == [(SHOWN / "follow_up.yaml").read_text()]
    assert load(SHOWN / "follow_up.yaml").waited_for


@pytest.mark.parametrize("call", [name for name in vars(Waiting) if not name.startswith("_")])
def test_the_page_names_every_way_to_wait(call: str) -> None:
    assert f"ctx.{call}(" in PAGE
