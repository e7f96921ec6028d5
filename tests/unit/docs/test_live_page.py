"""docs/live.md shows the files of `live_page/`, which run and are type-checked as such."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from streams.api.live.http import calls
from streams.api.live.reader import QUIET_SECONDS
from streams.api.live.sender import MOST_UNSENT_BYTES, SLOW_SECONDS
from streams.api.live.subject import MOST_JOBS, MOST_MEMBERS
from streams.api.live.tickets import LIFETIME_SECONDS
from streams.testing import Bench
from streams.worker.handler.live import Live
from streams.worker.live import heartbeats, output

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/live.md").read_text()
SHOWN = Path(__file__).parent / "live_page"


def test_the_page_shows_the_applications_and_their_test_as_they_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    names = ("reply_writer.py", "test_reply_writer.py", "row_importer.py")
    assert blocks == [(SHOWN / name).read_text() for name in names]


def test_the_second_attempt_goes_on_where_the_first_left_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(SHOWN))
    from row_importer import app

    with Bench(app) as bench:
        assert bench.submit("import_rows").run().result == 400
    del sys.modules["row_importer"]


@pytest.mark.parametrize("call", [name for name in vars(Live) if not name.startswith("_")])
def test_the_page_names_every_call(call: str) -> None:
    assert f"ctx.{call}" in PAGE


def test_the_page_names_every_path_and_event() -> None:
    for route in calls:
        assert re.sub(r"{\w+}", "{id}", route.path) in PAGE
    events = ("status", "token", "reset", "log", "step", "effect", "progress", "gap", "end")
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(events)


def test_the_bounds_are_those_of_the_code() -> None:
    assert (MOST_UNSENT_BYTES, SLOW_SECONDS, QUIET_SECONDS) == (256 * 1024, 5, 15)
    assert (MOST_JOBS, MOST_MEMBERS, LIFETIME_SECONDS) == (100, 1_000, 30)
    assert (output.TOKENS.a_second, output.TOKENS.in_all) == (256 * 1024, 4 * 1024 * 1024)
    assert (output.LINES.a_second, output.LINES.at_once, output.LINES.in_all) == (50, 200, 2_000)
    assert (output.GATHER_SECONDS, output.FLUSH_SECONDS) == (0.05, 2)
    assert (heartbeats.MAX_BYTES, heartbeats.EVERY_SECONDS) == (8 * 1024, 1)
