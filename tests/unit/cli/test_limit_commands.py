"""`tidegate limits` shows a line for each bucket, and passes the API's answer on as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.operator_api import OperatorApi
from typer.testing import CliRunner, Result

from streams.api.limits.cli import limits

NOTHING = {"held_idle": 0, "next_token_at": None, "paused": None}
CUSTOMER = {
    "name": "one_a_customer",
    "tenant_id": None,
    "scope": "key",
    "match": "*",
    "by": "input.customer",
    "per": None,
    "cap": 1,
    "rate": "100/min",
    "burst": 5,
    "holds": "for each matching tenant, overall",
    "buckets": [
        {
            "tenant_id": "acme",
            "key": '"ann"',
            "used": 1,
            "waiting": 7,
            "oldest_seconds": 12.4,
            **NOTHING,
        }
    ],
}
UNUSED = CUSTOMER | {"name": "refunds", "scope": "job_type", "cap": 5, "buckets": []}


def invoke(operator: OperatorApi, *arguments: str) -> Result:
    return CliRunner().invoke(limits, [*arguments, "--url", operator.url])


def answer(*found: dict[str, Any]) -> dict[str, Any]:
    return {
        "limits": list(found),
        "pauses": [],
        "circuits": [],
        "complete": True,
        "next_cursor": None,
    }


def test_the_list_has_a_line_for_each_bucket_and_each_unused_limit(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/limits", answer(CUSTOMER, UNUSED))
    shown = invoke(operator, "list")
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert lines[1][:2] == ["one_a_customer", "key"]
    assert '"ann"' in lines[1]
    assert all(told in shown.stdout for told in ("12 s", "1 of 1", "0 of 5"))
    assert json.loads(invoke(operator, "list", "--json").stdout) == answer(CUSTOMER, UNUSED)


@pytest.mark.parametrize("words", [("list",), ("show", "one_a_customer")])
def test_an_answer_that_does_not_count_all_jobs_says_so(
    operator: OperatorApi, words: tuple[str, ...]
) -> None:
    operator.on("GET", "/v1/limits", answer(CUSTOMER) | {"complete": False})
    assert "there are more jobs than one answer counts" in invoke(operator, *words).stdout


def test_a_tenants_own_limit_names_its_tenant_though_nothing_uses_it(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/limits", answer(UNUSED | {"tenant_id": "acme"}))
    assert "acme" in invoke(operator, "list").stdout


def test_one_limit_is_shown_with_its_fields(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/limits", answer(CUSTOMER))
    shown = invoke(operator, "show", "one_a_customer").stdout
    assert all(told in shown for told in ("100/min, 5 at once", "input.customer", '"ann"'))


def test_a_limit_that_nobody_declared_is_an_error(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/limits", answer())
    shown = invoke(operator, "show", "refund")
    assert shown.exit_code == 1
    assert "there is no limit 'refund': `tidegate limits list" in shown.stderr


PAUSED = {
    "scope": "job_type",
    "value": "refund",
    "by": "ann",
    "reason": "the bank is down",
    "at": "2026-11-29T16:00:00.000Z",
}


def test_a_pause_says_what_is_paused_by_whom_and_why(operator: OperatorApi) -> None:
    operator.on("POST", "/v1/limits/pause", PAUSED | {"warning": "nothing handles it"})
    words = ("pause", "job_type", "refund", "--reason", "the bank is down", "--by", "ann")
    done = invoke(operator, *words)
    assert done.stdout == "job type 'refund' is paused by ann: the bank is down\n"
    assert done.stderr == "warning: nothing handles it\n"
    sent = {name: value for name, value in PAUSED.items() if name != "at"}
    assert operator.bodies("POST") == [sent]


def test_a_resume_says_since_when_it_was_paused(operator: OperatorApi) -> None:
    operator.on("POST", "/v1/limits/resume", PAUSED | {"resumed_by": "bob"})
    done = invoke(operator, "resume", "job_type", "refund", "--by", "bob")
    assert "job type 'refund' starts again; it was paused since 2026-11-29" in done.stdout
    assert operator.bodies("POST") == [{"scope": "job_type", "value": "refund", "by": "bob"}]


def test_the_list_shows_all_pauses(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/limits", answer(CUSTOMER) | {"pauses": [PAUSED]})
    shown = invoke(operator, "list").stdout
    assert all(told in shown for told in ("paused", "the bank is down", "ann"))


def test_the_list_names_tools_that_are_cut_off(operator: OperatorApi) -> None:
    circuit = {"tool": "mail:send", "waiting": 3, "trying": 1, "oldest_seconds": 61.4}
    operator.on("GET", "/v1/limits", answer(CUSTOMER) | {"circuits": [circuit]})
    shown = invoke(operator, "list").stdout
    assert all(told in shown for told in ("circuit breaker", "mail:send", "61 s"))


OWN = {"name": "refunds", "scope": "job_type", "match": "refund", "concurrency": 2}
OTHER = {"name": "other", "scope": "tenant", "concurrency": 9}
ACME = {
    "tenant_id": "acme",
    "display_name": "Acme",
    "rate": None,
    "weight": 2.0,
    "disabled": False,
    "limits": [OWN, OTHER],
}


def test_a_tenants_limit_is_set_and_removed_and_the_rest_is_kept(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/tenants/acme", ACME)
    operator.on("PUT", "/v1/tenants/acme", ACME)
    flags = ("--scope", "job_type", "--match", "refund", "--rate", "5/min", "--burst", "2")
    assert invoke(operator, "set", "refunds", "--tenant", "acme", *flags).exit_code == 0
    assert invoke(operator, "remove", "other", "--tenant", "acme").exit_code == 0
    kept = {"display_name": "Acme", "rate": None, "weight": 2.0}
    paced = {"name": "refunds", "scope": "job_type", "match": "refund", "rate": "5/min", "burst": 2}
    assert operator.bodies("PUT") == [
        {**kept, "limits": [OTHER, paced]},
        {**kept, "limits": [OWN]},
    ]


def test_a_limit_that_a_tenant_has_not_is_not_removed(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/tenants/acme", ACME)
    refused = invoke(operator, "remove", "refund", "--tenant", "acme")
    assert (refused.exit_code, operator.bodies("PUT")) == (1, [])
    assert "has no limit 'refund' of its own" in refused.stderr


def test_a_disabled_tenant_is_not_enabled_by_its_limits(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/tenants/acme", ACME | {"disabled": True})
    refused = invoke(operator, "set", "refunds", "--tenant", "acme", "--concurrency", "2")
    assert (refused.exit_code, operator.bodies("PUT")) == (1, [])
    assert "is disabled: enable it first" in refused.stderr
