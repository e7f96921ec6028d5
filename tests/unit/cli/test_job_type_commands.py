"""`tidegate job-types` shows what workers announced, and passes the API's answer on as JSON."""

from __future__ import annotations

import json

from support.operator_api import OperatorApi
from typer.testing import CliRunner, Result

from streams.api.job_types.cli import job_types

REFUND = {
    "type": "refund",
    "app": "shop",
    "version": "7",
    "input_schema": {"title": "Refund", "type": "object", "required": ["cents"]},
    "result_schema": {"type": "array"},
    "retry": {"max_attempts": 3, "backoff": [1, 2.5]},
    "timeout_seconds": 60.0,
    "tools": ["payment:refund"],
    "pool": "default",
    "limits": ["refunds"],
    "announced_at": "2026-11-21T09:00:00.000Z",
}
REPORT = REFUND | {
    "type": "report",
    "version": None,
    "input_schema": None,
    "result_schema": None,
    "tools": None,
    "limits": [],
}


def invoke(operator: OperatorApi, *arguments: str) -> Result:
    return CliRunner().invoke(job_types, [*arguments, "--url", operator.url])


def test_the_list_has_a_line_for_each_type(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/job-types", {"job_types": [REFUND, REPORT]})
    shown = invoke(operator, "list").stdout
    refund, report = shown.splitlines()[1:3]
    for told in ("Refund", "array", "3, after 1, 2.5 s", "60 s", "payment:refund", "shop 7"):
        assert told in refund
    assert report.count("any") == 3
    assert json.loads(invoke(operator, "list", "--json").stdout) == {"job_types": [REFUND, REPORT]}


def test_no_type_is_said_to_be_none(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/job-types", {"job_types": []})
    assert invoke(operator, "list").stdout == "none\n"


def test_one_type_is_shown_with_its_schemas(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/job-types/refund", REFUND)
    shown = invoke(operator, "show", "refund").stdout
    for told in ("2026-11-21T09:00:00", "input schema", '"required": [', "result schema"):
        assert told in shown
    assert json.loads(invoke(operator, "show", "refund", "--json").stdout) == REFUND


def test_an_untyped_one_takes_any_json(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/job-types/report", REPORT)
    assert invoke(operator, "show", "report").stdout.count("any JSON") == 2
