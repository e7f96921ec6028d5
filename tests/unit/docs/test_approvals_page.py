"""docs/approvals.md shows the files of `approvals_page/`, which run as they are shown."""

from __future__ import annotations

import re
from pathlib import Path

from streams.topology.load import load

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/approvals.md").read_text()
SHOWN = Path(__file__).parent / "approvals_page"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_shows_the_application_and_its_tests_as_they_run() -> None:
    files = ("asked_refunds.py", "test_asked_refunds.py")
    assert blocks("python") == [(SHOWN / name).read_text() for name in files]
    assert blocks("yaml") == [(SHOWN / "asked_refunds.yaml").read_text()]
    assert load(SHOWN / "asked_refunds.yaml").approvals
