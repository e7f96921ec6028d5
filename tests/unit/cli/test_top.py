"""`tidegate top`: the overview as a view that looks again, until a key ends it."""

from __future__ import annotations

import json
import os
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from support.operator_api import OperatorApi, invoke, problem
from typer.testing import Result

from streams.api.overview import cli as command
from streams.api.overview.attention import MATTERS
from streams.api.overview.cli_view import _COMMANDS, flow, number, span, view
from streams.api.overview.flow import STAGES
from streams.api.overview.minutes_table import TALLY
from streams.cli.keys import pressed_keys
from streams.cli.main import application
from streams.cli.operator_command import Api

STAGE = {
    "name": "dispatcher",
    "rate": 1_240.13,
    "count": 1_000,
    "more": True,
    "oldest_at": "2026-11-30T03:05:11.002Z",
    "lag_seconds": 30.121,
    "list": "/v1/jobs?status=pending",
}
UNKNOWN = dict.fromkeys(("rate", "count", "oldest_at", "lag_seconds"))
OVERVIEW = {
    "at": "2026-11-30T03:05:41.123Z",
    "behind_seconds": 0.2,
    "flow": {
        "rate_seconds": 60,
        "stages": [STAGE, {**STAGE, **UNKNOWN, "name": "ledger", "more": False}],
    },
    "attention": {
        "most": 1_000,
        "counts": [
            {"name": "dead_letters", "count": 3, "more": False, "list": "/v1/dlq"},
            {"name": "reviews", "count": 0, "more": False, "list": "/v1/jobs"},
            {"name": "of_a_later_release", "count": 7, "more": True, "list": "/v1/later"},
        ],
    },
}
API = Api("http://127.0.0.1:8080", None, None)
MINUTES = {
    "minutes": {
        "since": "2026-11-30T02:06:00.000Z",
        "until": OVERVIEW["at"],
        "seconds": 60,
        "series": {"events": [0] * 58 + [2_400, 100], "failed_attempts": [0] * 60},
    }
}


@pytest.fixture
def asked(operator: OperatorApi) -> OperatorApi:
    operator.on("GET", "/v1/overview", OVERVIEW)
    operator.on("GET", "/v1/overview/minutes", MINUTES)
    return operator


def top(operator: OperatorApi, *words: str) -> Result:
    return invoke(operator, application(["top"]), "top", *words)


@pytest.mark.parametrize("words", [(), ("--once",)])
def test_into_a_pipe_it_is_printed_once(asked: OperatorApi, words: tuple[str, ...]) -> None:
    done = top(asked, *words)
    assert done.exit_code == 0, done.output
    for text in (
        "2026-11-30T03:05:41.123Z",
        "numbers 0.2 s old",
        "1,240.1",
        "1,000+",
        "2026-11-30T03:05:11Z",
        "30.1 s",
        "tidegate dlq list --not-replayed --url http://127.0.0.1:",
        "of a later release",
        "7+",
        "/v1/later",
        "none: reviews",
        "2,500",
        "none: failed attempts",
    ):
        assert text in done.stdout, text


def test_json_is_what_both_calls_answer(asked: OperatorApi) -> None:
    done = top(asked, "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {**OVERVIEW, **MINUTES})


def test_an_error_of_the_first_look_ends_it(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/overview", problem(503, "not-ready", "ask again"))
    done = top(operator)
    assert (done.exit_code, "ask again" in done.stderr) == (1, True)


def watched(monkeypatch: pytest.MonkeyPatch, operator: OperatorApi, *keys: str) -> str:
    """What a terminal gets until the last of these keys."""
    waiting = list(keys)

    @contextmanager
    def pressed() -> Iterator[Callable[[float], str]]:
        yield lambda _: waiting.pop(0)

    monkeypatch.setattr(command, "pressed_keys", pressed)
    monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", "t")
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=120, height=50)
    command._watch(Api(operator.url, None, None), console)
    assert waiting == []
    return out.getvalue()


def test_it_looks_again_until_q(monkeypatch: pytest.MonkeyPatch, asked: OperatorApi) -> None:
    later = {**OVERVIEW, "at": "2026-11-30T03:05:42.000Z"}
    asked.on("GET", "/v1/overview", OVERVIEW, later)
    shown = watched(monkeypatch, asked, "", "x", "q")
    assert "03:05:41.123Z" in shown
    assert "03:05:42.000Z" in shown
    assert len(asked.asked) == 6
    assert shown.endswith("\x1b[?25h\x1b[?1049l"), "the terminal is as it was before"


def test_the_last_numbers_stay_while_the_api_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, asked: OperatorApi
) -> None:
    away = problem(503, "not-ready", "the read model has not caught up")
    later = {**OVERVIEW, "at": "2026-11-30T03:05:42.000Z"}
    asked.on("GET", "/v1/overview", OVERVIEW, away, later)
    shown = watched(monkeypatch, asked, "", "", "q")
    pages = shown.split("tidegate top")
    assert "trying on: " in pages[2]
    assert "the read model has not caught up" in pages[2]
    assert "03:05:41.123Z" in pages[2]
    assert "trying on: " not in pages[3]


def test_every_number_has_its_command_and_every_command_a_number() -> None:
    names = {each.name for each in MATTERS} | {
        "full_backlogs",
        "open_breakers",
        "stopped_bulk_acts",
    }
    assert _COMMANDS.keys() == names


@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_fits_the_terminal_and_nothing_steers_it(width: int) -> None:
    out = StringIO()
    hostile = {**OVERVIEW, "attention": {"most": 1, "counts": [_named("x\x1b]0;owned\x07\u202ey")]}}
    series = {name: [1] * 60 for name in TALLY.numbers}
    found = {**hostile, "minutes": {"series": series}}
    Console(file=out, width=width).print(view(found, API, "[red]away"))
    assert [c for c in out.getvalue() if not c.isprintable() and c != "\n"] == []
    assert max(map(len, out.getvalue().splitlines())) <= width
    assert "[red]away" in out.getvalue()


def _named(name: str) -> dict[str, Any]:
    return {"name": name, "count": 1, "more": False, "list": "/v1/x"}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (0.25, "0.2 s"),
        (59.94, "59.9 s"),
        (90, "1.5 min"),
        (5_400, "1.5 h"),
        (129_600, "1.5 d"),
    ],
)
def test_a_span_is_read_at_a_glance(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


@pytest.mark.parametrize(("rate", "shown"), [(0.02, "0.02"), (9.5, "9.50"), (1_240.13, "1,240.1")])
def test_a_slow_rate_is_not_rounded_away(rate: float, shown: str) -> None:
    out = StringIO()
    Console(file=out, width=100).print(flow([{**STAGE, "rate": rate}]))
    assert f" {shown} " in out.getvalue()


def test_a_small_terminal_has_room_for_a_quiet_installation(asked: OperatorApi) -> None:
    out = StringIO()
    stages = [{**STAGE, "name": each.name} for each in STAGES]
    found = {**OVERVIEW, "flow": {"stages": stages}, **MINUTES}
    Console(file=out, width=80, height=24).print(view(found, API))
    assert len(out.getvalue().splitlines()) <= 24


def test_a_number_says_that_there_may_be_more() -> None:
    assert (number(1_000, True), number(3, False)) == ("1,000+", "3")


def test_keys_are_read_one_by_one_and_the_terminal_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        before = termios.tcgetattr(theirs)
        with pressed_keys() as pressed:
            assert pressed(0) == ""
            os.write(ours, b"q")
            assert pressed(5) == "q"
            with pytest.raises(ZeroDivisionError):
                raise ZeroDivisionError
        assert termios.tcgetattr(theirs) == before
    os.close(ours)


def test_without_a_terminal_it_only_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("q"))
    with pressed_keys() as pressed:
        assert pressed(0) == ""
