"""docs/policies.md shows the files of `policies_page/`, which run as they are shown."""

from __future__ import annotations

import re
from pathlib import Path

from streams.topology.load import load
from streams.topology.policies import ATTRIBUTES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/policies.md").read_text()
SHOWN = Path(__file__).parent / "policies_page"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_shows_the_application_and_its_tests_as_they_run() -> None:
    files = ("policed_refunds.py", "test_policed_refunds.py")
    assert blocks("python") == [(SHOWN / name).read_text() for name in files]
    assert blocks("yaml") == [(SHOWN / "policed_refunds.yaml").read_text()]
    assert load(SHOWN / "policed_refunds.yaml").policies


def test_the_page_names_each_attribute() -> None:
    assert re.findall(r"^\| `(\w+)` \| .* glob", PAGE, re.MULTILINE) == list(ATTRIBUTES)
