"""`tidegate causes ...`, against an API that answers so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.operator_api import OperatorApi, invoke

from streams.api.causes.cli import causes

CAUSE_ID = "cau_7k2l0qf3v7t1m8ab"
CAUSE: dict[str, Any] = {
    "id": CAUSE_ID,
    "kind": "job",
    "type": "export",
    "stage": "dispatcher",
    "topic": None,
    "error_class": "SMTPError",
    "message": "SMTPError: 452 box 7 is full",
    "normalized": "SMTPError: <number> box <number> is full",
    "code_version": "1.4",
    "open": 12,
    "total": 15,
    "trend": {"every": "hour", "since": "2026-11-23T20:00:00.000Z", "counts": [0, 1, 8]},
    "first_seen": "2026-11-23T20:00:00.000Z",
    "last_seen": "2026-11-23T22:00:00.000Z",
    "tenants": {"count": 2, "first": ["acme", "beta"]},
    "state": "open",
    "came_back": True,
    "until": None,
    "decided": {"state": "resolved", "at": "2026-11-23T21:00:00.000Z", "by": "ann", "note": "up"},
}
ALONE = {
    **CAUSE,
    "minutes": {"every": "minute", "since": "2026-11-23T22:00:00.000Z", "counts": [3, 0]},
    "sample": {"id": "job_a", "tenant_id": "acme", "detail": CAUSE["message"], "replays": []},
}


def test_causes_are_listed_with_their_trend_and_whether_they_came_back(
    operator: OperatorApi,
) -> None:
    operator.on("GET", "/v1/causes", {"causes": [CAUSE], "next_cursor": None})
    done = invoke(operator, causes, "list", "--state", "open", "--type", "export")
    assert done.exit_code == 0, done.output
    for shown in ("12", "15", "came back", "·▂█", "export", CAUSE_ID):
        assert shown in done.stdout
    (asked,) = operator.asked
    assert "state=open" in asked.path
    assert "job_type=export" in asked.path


def test_a_cause_of_records_is_listed_by_stage_and_topic(operator: OperatorApi) -> None:
    record = {**CAUSE, "kind": "record", "type": None, "topic": "events", "came_back": False}
    operator.on("GET", "/v1/causes", {"causes": [record], "next_cursor": None})
    done = invoke(operator, causes, "list")
    assert "dispatcher/events" in done.stdout
    assert "came back" not in done.stdout


def test_one_cause_is_shown_with_what_was_decided_and_a_letter(operator: OperatorApi) -> None:
    operator.on("GET", f"/v1/causes/{CAUSE_ID}", ALONE)
    done = invoke(operator, causes, "show", CAUSE_ID)
    assert done.exit_code == 0, done.output
    for shown in ("2: acme, beta", "ann", "job_a", "█· of the last 60 minutes"):
        assert shown in done.stdout
    printed = invoke(operator, causes, "show", CAUSE_ID, "--json")
    assert json.loads(printed.stdout) == ALONE


@pytest.mark.parametrize("what", ["resolve", "reopen"])
def test_a_decision_is_sent_with_its_note(operator: OperatorApi, what: str) -> None:
    operator.on("POST", f"/v1/causes/{CAUSE_ID}/{what}", ALONE)
    done = invoke(operator, causes, what, CAUSE_ID, "--note", "it is up")
    assert done.exit_code == 0, done.output
    assert operator.bodies("POST") == [{"note": "it is up"}]


@pytest.mark.parametrize("until", ["2h", "2999-01-01T00:00:00Z"])
def test_a_cause_is_ignored_until_a_time_or_for_a_while(operator: OperatorApi, until: str) -> None:
    operator.on("POST", f"/v1/causes/{CAUSE_ID}/ignore", ALONE)
    done = invoke(operator, causes, "ignore", CAUSE_ID, "--note", "x", "--until", until)
    assert done.exit_code == 0, done.output
    (body,) = operator.bodies("POST")
    assert body["note"] == "x"
    assert body["until"] > "2026" if until == "2h" else body["until"] == until
