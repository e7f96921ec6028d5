"""`make recordings` draws what a terminal shows, and the pages show what it draws."""

from __future__ import annotations

import html
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RECORDINGS = ROOT / "docs/recordings"


def shown(svg: str) -> str:
    pieces = re.findall(r"<text [^>]*>(.*?)</text>", svg)
    return html.unescape(" ".join(pieces)).replace("\xa0", " ")


def test_a_picture_has_the_command_and_what_was_drawn_last() -> None:
    picture = runpy.run_path(str(RECORDINGS / "record.py"))["picture"]
    printed = "\x1b[1mrunning\x1b[0m\nstep\r\x1b[2K\x1b[1A\x1b[2K\x1b[31msucceeded\x1b[0m\n"
    svg = picture([("tidegate jobs watch job_1", printed)], "watch")
    text = shown(svg)
    assert "$ tidegate jobs watch job_1" in text
    assert "succeeded" in text
    assert "running" not in text
    assert "https://cdnjs" not in svg


@pytest.mark.parametrize("file", sorted(RECORDINGS.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_is_one_that_the_script_draws(file: Path) -> None:
    assert f'"{file.stem}"' in (RECORDINGS / "record.py").read_text()
    assert "$ tidegate" in shown(file.read_text())
    assert "cdnjs" not in file.read_text()
