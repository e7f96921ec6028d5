"""`tidegate schedules` creates, lists, shows, pauses, resumes and deletes schedules."""

from __future__ import annotations

import json
from typing import Any

from support.operator_api import OperatorApi, invoke
from typer.testing import Result

from streams.api.schedules.cli import schedules

SHOWN: dict[str, Any] = {
    "id": "report",
    "tenant_id": "acme",
    "cron": "0 9 * * mon-fri",
    "every_seconds": None,
    "at": None,
    "tz": "Europe/Berlin",
    "job": "report",
    "input": {"to": "ann"},
    "paused": False,
    "next": ["2026-11-30T08:00:00.000Z", "2026-12-01T08:00:00.000Z"],
    "last": {"job_id": "job_a", "scheduled_for": "2026-11-27T08:00:00.000Z"},
    "skipped": None,
    "tzdata": "2026f",
}
PATH = "/v1/tenants/acme/schedules"


def run(operator: OperatorApi, *words: str) -> Result:
    return invoke(operator, schedules, *words)


def test_schedules_are_listed_and_shown(operator: OperatorApi) -> None:
    paused = {
        **SHOWN,
        "id": "other",
        "paused": True,
        "last": None,
        "cron": None,
        "every_seconds": 9,
    }
    operator.on("GET", "/v1/schedules", {"schedules": [SHOWN, paused], "next_cursor": None})
    operator.on("GET", f"{PATH}/report", SHOWN)
    listed = run(operator, "list", "--tenant", "acme").stdout
    for text in ("0 9 * * mon-fri", "2026-11-30T08:00:00.000Z", "job_a", "every 9 s", "paused"):
        assert text in listed
    shown = run(operator, "show", "report", "--tenant", "acme").stdout
    for text in ("2026-11-30T08:00:00.000Z", "2026-12-01T08:00:00.000Z", "2026f", '"ann"'):
        assert text in shown
    as_json = run(operator, "show", "report", "--tenant", "acme", "--json").stdout
    assert json.loads(as_json)["next"] == SHOWN["next"]


def test_a_schedule_is_created_with_what_is_given(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/tenants/acme", {"tenant_id": "acme"})
    operator.on("POST", PATH, {**SHOWN, "warning": "no job type 'report'"})
    words = ("--cron", "0 9 * * mon-fri", "--tz", "Europe/Berlin", "--input", '{"to": "ann"}')
    made = run(operator, "create", "report", "--tenant", "acme", "--job", "report", *words)
    assert "warning: no job type 'report'" in made.output
    run(
        operator, "create", "x", "--tenant", "acme", "--job", "report", "--every", "15m", "--paused"
    )
    first, second = operator.bodies("POST")
    assert first == {
        "id": "report",
        "job": "report",
        "input": {"to": "ann"},
        "cron": "0 9 * * mon-fri",
        "tz": "Europe/Berlin",
        "missed": "latest",
        "grace_seconds": 60.0,
        "overlap": "allow",
        "note": "",
    }
    assert (second["every_seconds"], second["paused"], second["input"]) == (900.0, True, {})


def test_it_is_paused_resumed_and_deleted(operator: OperatorApi) -> None:
    operator.on("POST", f"{PATH}/report/pause", {**SHOWN, "paused": True, "note": "closed"})
    operator.on("POST", f"{PATH}/report/resume", SHOWN)
    operator.on("DELETE", f"{PATH}/report", {"id": "report", "tenant_id": "acme", "removed": True})
    of = ("report", "--tenant", "acme")
    assert "closed" in run(operator, "pause", *of, "--note", "closed").stdout
    assert run(operator, "resume", *of).exit_code == 0
    assert "schedule report of tenant acme is deleted" in run(operator, "delete", *of).stdout
    assert operator.bodies("POST") == [{"note": "closed"}, {"note": ""}]
