"""`tidegate workers` lists workers, drains one by its name, and resumes it."""

from __future__ import annotations

from typing import Any

from support.operator_api import OperatorApi
from typer.testing import CliRunner, Result

from streams.api.workers.cli import workers

DRAIN = {"by": "ann", "reason": "its node is replaced", "at": "2026-11-30T10:00:00.000Z"}
PAUSED = {"scope": "worker", "value": "default-w1", **DRAIN}


def invoke(operator: OperatorApi, *arguments: str) -> Result:
    return CliRunner().invoke(workers, [*arguments, "--url", operator.url])


def sent(operator: OperatorApi) -> Any:
    return operator.asked[-1].body


def test_the_list_shows_what_runs_and_who_drained_a_worker(operator: OperatorApi) -> None:
    rows = [
        {"worker": "default-w1", "running": 2, "drained": DRAIN},
        {"worker": "default-w2", "running": 1, "drained": None},
    ]
    operator.on("GET", "/v1/workers", {"workers": rows, "counts_all": True})
    shown = invoke(operator, "list").stdout
    assert all(told in shown for told in ("default-w1", "default-w2", "its node is replaced"))


def test_a_worker_is_drained_by_its_name_though_its_id_was_given(operator: OperatorApi) -> None:
    operator.on("POST", "/v1/limits/pause", PAUSED | {"warning": None})
    shown = invoke(operator, "drain", "default-w1/0193", "--reason", "its node is replaced")
    assert "gets no new leases" in shown.stdout
    assert sent(operator) == {
        "scope": "worker",
        "value": "default-w1",
        "reason": "its node is replaced",
    }


def test_a_drained_worker_is_resumed(operator: OperatorApi) -> None:
    operator.on("POST", "/v1/limits/resume", PAUSED | {"resumed_by": "bob"})
    assert invoke(operator, "resume", "default-w1", "--by", "bob").exit_code == 0
    assert sent(operator) == {"scope": "worker", "value": "default-w1", "by": "bob"}
