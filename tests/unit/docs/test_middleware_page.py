"""docs/middleware.md shows the files of `middleware_page/`, and the stack as it is."""

from __future__ import annotations

import re
from pathlib import Path

import streams.middleware
from streams.testing import middleware_rules
from streams.worker.middleware.stack import DEFAULT

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/middleware.md").read_text()
SHOWN = Path(__file__).parent / "middleware_page"


def test_the_page_shows_the_application_and_its_tests_as_they_run() -> None:
    assert re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE) == [
        (SHOWN / name).read_text() for name in ("own_middleware.py", "test_own_middleware.py")
    ]


def test_the_page_has_the_default_stack_in_its_order() -> None:
    shown = re.findall(r"^\| \d+ \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert shown == [member.__name__ for member in DEFAULT]


def test_the_page_names_each_rule_and_each_public_name() -> None:
    assert {str(rule) for rule in middleware_rules()} <= set(re.findall(r"`([^`\n]+)`", PAGE))
    assert all(f"`{name}" in PAGE for name in streams.middleware.__all__)


def test_each_member_is_a_module_of_at_most_200_lines() -> None:
    for member in DEFAULT:
        lines = len((ROOT / (member.__module__.replace(".", "/") + ".py")).read_text().splitlines())
        assert lines <= 200, member
