"""`tidegate analytics top`: the table and its sparklines."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from support.operator_api import OperatorApi, invoke, problem

from streams.cli import analytics as command
from streams.cli.analytics import view
from streams.cli.main import application
from streams.cli.sparkline import sparkline

ROW = {
    "tenant_id": "acme",
    "source": "shop",
    "type": "order.paid",
    "events": 1_200,
    "redeliveries": 3,
    "subjects": 40,
    "jobs": {"dead": 2, "succeeded": 10},
    "event_to_end_ms": {"p50": 340, "p95": 900, "p99": 65_000},
    "deliveries": [0, 1, 4],
}


@pytest.mark.parametrize(
    ("values", "bars"),
    [([], ""), ([0, 0], "  "), ([1, 4, 8], "▂▅█"), ([7], "█"), ([1_000_000, 1], "█▂")],
)
def test_numbers_become_bars(values: list[int], bars: str) -> None:
    assert sparkline(values) == bars


def test_a_long_series_fits() -> None:
    assert sparkline([1] * 61) == "█" * 20 + "▄"
    assert len(sparkline(list(range(1_440)))) == 30


def test_a_row_shows_its_figures_and_what_is_missing() -> None:
    out = StringIO()
    found = {
        "rows": [ROW],
        "of": 7,
        "since": "2026-11-24T00:00:00Z",
        "until": "2026-11-24T01:00:00Z",
        "missing": ["jobs:3"],
    }
    Console(file=out, width=200).print(view(found))
    shown = out.getvalue()
    for text in (
        "acme",
        "shop",
        "order.paid",
        "▃█",
        "1,200",
        "12",
        "340 ms",
        "65 s",
        "1 of 7",
        "not counted here: jobs:3",
    ):
        assert text in shown


def test_what_a_body_names_cannot_steer_the_terminal() -> None:
    out = StringIO()
    hostile = {**ROW, "type": "order\x1b]0;owned\x07\x1b[2J\u202epaid", "source": "[red]shop"}
    found = {"rows": [hostile], "of": 1, "since": "a", "until": "b", "missing": []}
    Console(file=out, width=300).print(view(found))
    assert "[red]shop" in out.getvalue()
    assert [c for c in out.getvalue() if not c.isprintable() and c != "\n"] == []


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_BETWEEN_LOOKS", 0)


@pytest.mark.parametrize("status", [502, 503])
def test_watching_goes_on_after_a_look_without_an_answer(
    operator: OperatorApi, status: int
) -> None:
    found = {"rows": [ROW], "of": 1, "since": "a", "until": "b", "missing": []}
    away = problem(status, "not-ready", "no partition is assigned yet")
    end = problem(404, "route-unknown", "nothing more to see")
    later = {**found, "until": "later"}
    operator.on("GET", "/v1/analytics/top", found, away, later, end)
    done = invoke(operator, application(["analytics"]), "analytics", "top", "--watch")
    assert "later" in done.stdout
    assert (done.exit_code, "nothing more to see" in done.stderr) == (1, True)


def test_watching_begins_with_an_answer(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/analytics/top", problem(503, "not-ready", "ask again"))
    done = invoke(operator, application(["analytics"]), "analytics", "top", "--watch")
    assert (done.exit_code, "ask again" in done.stderr) == (1, True)
