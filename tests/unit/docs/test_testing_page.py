"""docs/testing.md shows the files of `testing_page/`, which run and are type-checked as such."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import streams.testing
from streams.testing import Bench, Call, DeadLetter, Effect, FailedRun, Job, LogLine

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/testing.md").read_text()
SHOWN = Path(__file__).parent / "testing_page"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_shows_the_application_and_its_tests_as_they_run() -> None:
    application, *tests = blocks("python")
    assert application == (SHOWN / "refunds.py").read_text()
    assert "\n\n".join(tests) == (SHOWN / "test_refunds.py").read_text()
    assert blocks("yaml") == [(SHOWN / "refunds.yaml").read_text()]


@pytest.mark.parametrize("shown", [Bench, Job, Effect, Call, FailedRun, DeadLetter, LogLine])
def test_the_page_names_everything_that_a_test_can_use(shown: type) -> None:
    hidden = {"id"} if shown is Job else set()
    fields = getattr(shown, "__dataclass_fields__", {})
    names = {name for name in {*dir(shown), *fields, *hidden} if not name.startswith("_")}
    assert {name for name in names if not re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", PAGE)} == set()


def test_the_public_names_are_on_the_page() -> None:
    assert all(f"`{name}" in PAGE for name in streams.testing.__all__)
    assert streams.testing.__all__ == [
        "Bench",
        "Call",
        "Crash",
        "DeadLetter",
        "Effect",
        "FailedRun",
        "Job",
        "LogLine",
        "Refused",
        "Saved",
        "crash_points",
        "middleware_rules",
    ]
