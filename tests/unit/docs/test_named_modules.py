"""A module that the code names in words exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
_NAMED = re.compile(r"(?<![\w/.])(?:streams|ingress)/[a-z_/]+\.(?:py|go)")


def test_every_module_that_the_code_names_exists() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {named}"
        for path in ROOT.glob("streams/**/*.py")
        for named in _NAMED.findall(path.read_text())
        if not (ROOT / named).exists()
    }
    assert missing == set()
