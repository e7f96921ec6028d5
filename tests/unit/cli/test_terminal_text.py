"""What others wrote steers no terminal, in an error and in JSON either."""

from __future__ import annotations

import orjson
import pytest

from streams.cli.api_client import CallFailed
from streams.cli.ends import tell
from streams.cli.operator_command import print_json

STEERS = [
    "\x1b[2J",
    "\x9b2J",
    "\x7f",
    "\u202egnp.exe",
    "\u2066x",
    "\u200bx",
    "\r\x08",
    "\U000e0041",
]


@pytest.mark.parametrize("text", STEERS)
def test_an_error_steers_no_terminal(capsys: pytest.CaptureFixture[str], text: str) -> None:
    tell(CallFailed(f"no effect {text}:\nsee the list"))
    shown = capsys.readouterr().err
    assert all(c.isprintable() or c == "\n" for c in shown), shown
    assert shown.endswith(":\nsee the list\n")


@pytest.mark.parametrize("text", STEERS)
def test_json_steers_no_terminal_and_means_the_same(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    found = {"name": text, text: ["ä", text]}
    print_json(found)
    shown = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in shown), shown
    assert "ä" in shown
    assert orjson.loads(shown) == found
