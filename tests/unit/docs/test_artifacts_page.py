"""docs/artifacts.md shows the files of `artifacts_page/`, which run as they are shown."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/artifacts.md").read_text()
SHOWN = Path(__file__).parent / "artifacts_page"


def test_the_page_shows_the_application_and_its_test_as_they_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert blocks == [(SHOWN / name).read_text() for name in ("bills.py", "test_bills.py")]
