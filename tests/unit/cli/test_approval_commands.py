"""`tidegate approvals` lists what jobs ask of people, shows it, approves and rejects."""

from __future__ import annotations

import json
from typing import Any

from support.operator_api import OperatorApi, invoke
from typer.testing import Result

from streams.api.approvals.cli import approvals

SHOWN: dict[str, Any] = {
    "approval_id": "apr_1",
    "tenant_id": "acme",
    "job_id": "job_a",
    "key": "refund",
    "prompt": "Refund ch_1?",
    "effects": [{"tool": "pay:refund", "key": "ch_1", "arguments": {"amount": 82_000}}],
    "status": "pending",
    "by": None,
    "note": "",
    "expires_at": None,
}
PATH = "/v1/approvals/apr_1"


def run(operator: OperatorApi, *words: str) -> Result:
    return invoke(operator, approvals, *words)


def test_approvals_are_listed_and_shown(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/approvals", {"approvals": [SHOWN], "next_cursor": None})
    operator.on("GET", PATH, {**SHOWN, "details": {"policy": "handler"}})
    listed = run(operator, "list", "--tenant", "acme", "--status", "pending")
    assert "apr_1" in listed.stdout
    shown = run(operator, "show", "apr_1").stdout
    assert "Refund ch_1?" in shown
    assert "pay:refund/ch_1" in shown
    assert "82000" in shown
    assert json.loads(run(operator, "show", "apr_1", "--json").stdout)["key"] == "refund"


def test_a_pending_approval_is_shown_with_the_ways_to_decide(operator: OperatorApi) -> None:
    details: dict[str, Any] = {"details": {}}
    operator.on("GET", PATH, SHOWN | details, SHOWN | details | {"status": "rejected"})
    shown = run(operator, "show", "apr_1").stdout
    for decide in ("approve", "reject"):
        command = f"tidegate approvals {decide} apr_1 --note TEXT --url {operator.url}\n"
        assert f"to {decide}: {command}" in shown
    assert f"page: {operator.url}/approvals/apr_1\n" in shown
    assert "--note TEXT" not in run(operator, "show", "apr_1").stdout


def test_a_decision_is_posted_with_its_edit(operator: OperatorApi) -> None:
    approved = {**SHOWN, "status": "approved", "by": "ann", "answered": True}
    operator.on("POST", f"{PATH}/approve", approved)
    operator.on("POST", f"{PATH}/reject", {**approved, "status": "rejected", "by": "operator"})
    words = ("--note", "half", "--edit", '{"amount": 41000}', "--by", "ann")
    told = run(operator, "approve", "apr_1", *words)
    assert "approval apr_1 of job job_a is approved by ann" in told.stdout
    assert "is rejected by operator" in run(operator, "reject", "apr_1", "--note", "no").stdout
    bodies = operator.bodies("POST")
    edited = {"note": "half", "by": "ann", "edit": {"amount": 41_000}}
    assert bodies == [edited, {"note": "no"}]


def test_an_edit_is_json(operator: OperatorApi) -> None:
    refused = run(operator, "approve", "apr_1", "--edit", "{amount")
    assert refused.exit_code == 2
    assert "--edit" in refused.output
