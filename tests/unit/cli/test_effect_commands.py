"""`tidegate effects` finds effects across jobs, and settles those that count beyond a job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.operator_api import OperatorApi, invoke
from support.operator_cluster import make_entry, make_job
from typer.testing import Result

from streams.api.effects.cli import effects
from streams.api.effects.table import effect_json
from streams.api.jobs.cli import jobs

DONE = make_entry(make_job("job_a"), "stripe:refund/ch 1", scope="@tenant")
SHOWN = {"tenant_id": "acme", **effect_json(DONE)}
ACTION = "@tenant/stripe:refund/ch 1"
SETTLE = "/v1/tenants/acme/effects/@tenant%2Fstripe:refund%2Fch%201/settle"


def run(operator: OperatorApi, *words: str, group: Any = effects) -> Result:
    return invoke(operator, group, *words)


def test_effects_are_listed_by_what_is_known_of_them(operator: OperatorApi) -> None:
    operator.on("GET", "/v1/effects", {"effects": [SHOWN], "next_cursor": None})
    wanted = ("--tenant", "acme", "--tool", "stripe:refund", "--key", "ch 1", "--status", "done")
    shown = run(operator, "list", *wanted)
    assert (ACTION in shown.stdout, "job_a" in shown.stdout) == (True, True)
    assert operator.asked[0].path == (
        "/v1/effects?tenant_id=acme&limit=50&tool=stripe:refund&key=ch+1&status=done"
    )
    answer = json.loads(run(operator, "list", "--json").stdout)
    assert answer["effects"] == [SHOWN]


@pytest.mark.parametrize(
    ("said", "body"),
    [
        (("--done", '{"id":1}'), {"status": "done", "result": {"id": 1}}),
        (("--not-done",), {"status": "not_done"}),
    ],
)
def test_a_shared_effect_is_settled(
    operator: OperatorApi, said: tuple[str, ...], body: dict[str, Any]
) -> None:
    operator.on("POST", SETTLE, SHOWN | {"answered": True, "note": "asked"})
    told = run(operator, "settle", ACTION, "--tenant", "acme", *said, "--note", "asked")
    assert (told.exit_code, told.stdout) == (0, f"{ACTION} is done: asked\n")
    assert operator.bodies("POST") == [body | {"note": "asked"}]


@pytest.mark.parametrize("said", [(), ("--done", "1", "--not-done")])
def test_one_answer_is_needed(operator: OperatorApi, said: tuple[str, ...]) -> None:
    told = run(operator, "settle", ACTION, "--tenant", "acme", *said, "--note", "asked")
    assert (told.exit_code, operator.asked) == (2, [])


def test_a_settlement_that_nobody_carried_out_yet_says_so(operator: OperatorApi) -> None:
    operator.on("POST", SETTLE, SHOWN | {"answered": False})
    told = run(operator, "settle", ACTION, "--tenant", "acme", "--not-done", "--note", "asked")
    assert (told.exit_code, "no dispatcher carried it out" in told.stderr) == (1, True)
    assert "tidegate effects list --tenant acme --key 'ch 1'" in told.stderr


def test_review_settles_a_shared_effect_without_its_job(operator: OperatorApi) -> None:
    lost = SHOWN | {"type": None, "job_status": None, "settle_after": "2026-11-23T20:00:00.000Z"}
    operator.on("GET", "/v1/jobs", b'{"jobs": [], "next_cursor": null}')
    operator.on("GET", "/v1/effects/unknown", {"effects": [lost], "next_cursor": None})
    shown = run(operator, "review", group=jobs).stdout
    assert f"tidegate effects settle '{ACTION}' --tenant acme --done" in shown
