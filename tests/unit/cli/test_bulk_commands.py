"""`tidegate bulk ...`, against an API that answers so."""

from __future__ import annotations

from typing import Any

import pytest
from support.operator_api import OperatorApi, invoke
from typer.testing import Result

from streams.api.bulk.cli import bulk

BULK_ID = "blk_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11"
BEGUN: dict[str, Any] = {
    "bulk_id": BULK_ID,
    "action": "jobs.move",
    "count": 2,
    "samples": [{"id": "job_a", "tenant_id": "acme"}, {"id": "job_b", "tenant_id": "acme"}],
    "excluded": [{"reason": "ended", "count": 7, "samples": ["job_c"]}],
}
ACT: dict[str, Any] = {
    **{name: BEGUN[name] for name in ("bulk_id", "action", "count", "excluded")},
    "status": "done",
    "filter": {"type": "export"},
    "params": {"pool": "slow"},
    "positions": {"0": 7},
    "done": 2,
    "asked": 0,
    "failed": 0,
    "waiting": 0,
    "joined": [{"by": "operator", "did": "ask", "at": "2026-11-23T20:00:00.000Z"}],
}
PATH = f"/v1/bulk/{BULK_ID}"


def run(operator: OperatorApi, *words: str) -> Result:
    return invoke(operator, bulk, *words)


def test_an_act_is_started_with_what_the_options_say(operator: OperatorApi) -> None:
    operator.on("POST", "/v1/bulk", BEGUN, status=202)
    done = run(
        operator,
        *("start", "jobs.move", "--filter", "type=export", "--filter", 'ids=["job_a"]'),
        *("--filter", "since=2026-11-20T00:00:00Z", "--param", "pool=slow", "--note", "why"),
        *("--ramp", "2,20", "--stop-at-failures", "0.5", "--key", "k1"),
    )
    assert done.exit_code == 0
    assert "job_a" in done.stdout
    assert "ended" in done.stdout
    assert f"tidegate bulk watch {BULK_ID}" in done.stderr
    (asked,) = operator.asked
    assert asked.headers["Idempotency-Key"] == "k1"
    assert asked.body == {
        "action": "jobs.move",
        "filter": {"type": "export", "ids": ["job_a"], "since": "2026-11-20T00:00:00Z"},
        "params": {"pool": "slow"},
        "note": "why",
        "ramp": [2, 20],
        "stop_at_failures": 0.5,
    }


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--filter", "type"), "write NAME=VALUE"),
        (("--filter", "a=1", "--filter", "a=2"), "more than once"),
        (("--filter", "ids=[oops"), "is not JSON"),
        (("--param", 'patch={"amount":123456789012345678901}'), "more than 64 bits"),
        (("--ramp", "some"), "write numbers"),
        (("--stop-at-failures", "some"), "write a number"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_a_call(
    operator: OperatorApi, words: tuple[str, ...], why: str
) -> None:
    done = run(operator, "start", "jobs.cancel", "--note", "why", *words)
    assert done.exit_code == 2
    assert why in " ".join(done.stderr.replace("│", " ").split())
    assert operator.asked == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, 0),
        ({"done": 1, "failed": 1}, 1),
        ({"done": 1, "asked": 1}, 1),
        ({"status": "stopped"}, 3),
        ({"status": "cancelled"}, 3),
    ],
)
def test_the_exit_code_of_a_watch_says_how_the_act_ended(
    operator: OperatorApi, fields: dict[str, Any], code: int
) -> None:
    operator.on("GET", PATH, ACT | fields)
    assert run(operator, "watch", BULK_ID).exit_code == code
