"""docs/plain-functions.md shows the files of `plain_page/`, which run as they are shown."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/plain-functions.md").read_text()
SHOWN = Path(__file__).parent / "plain_page"


def test_the_page_shows_the_application_and_its_test_as_they_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert blocks == [(SHOWN / name).read_text() for name in ("images.py", "test_images.py")]
