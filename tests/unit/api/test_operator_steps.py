"""What finished steps left is shown with their job, and a person decides about a divergence."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from support.operator_cluster import make_job
from support.operator_desk import OperatorDesk, client_of

from streams.api.jobs import table as jobs
from streams.api.read_model.database import Database
from streams.serde.codec import JOB, STEP_RESULT
from streams.serde.keys import checkpoint_key
from streams.serde.records import SettleSteps, StepResult
from streams.topology.load import load

KEPT = StepResult("draft", "step", value='"Hi"', code="1.4", changed_args=True)
LATE = StepResult("event", "event", raises="WaitTimeout", message="its time is over")
DIVERGED = make_job("job_a", status="needs_review", run_id="run_7", diverged="draft", code="1.5")


class Desk(OperatorDesk):
    """A job whose code has diverged, and what its finished steps left."""

    def __init__(self, rows: sqlite3.Connection) -> None:
        super().__init__(rows)
        self.fold("jobs", b"", JOB.encode(DIVERGED))
        for result in (KEPT, LATE):
            key = checkpoint_key("job_a", DIVERGED.incarnation, result.id)
            self.fold("dispatcher.checkpoints.changelog", key, STEP_RESULT.encode(result))

    def fold(self, topic: str, key: bytes, value: bytes | None) -> None:
        self.project([(topic, key, value)])


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    rows = Database(tmp_path / "m.sqlite").open_writer()
    yield Desk(rows)
    rows.close()


@pytest.fixture
async def api(desk: Desk) -> AsyncIterator[TestClient[Any, Any]]:
    async with client_of(desk) as client:
        yield client


def test_a_job_shows_its_version_its_divergence_and_what_each_step_left(desk: Desk) -> None:
    shown = jobs.shown_job(desk.rows, "job_a", load()) or {}
    assert (shown["code"], shown["code_at_start"], shown["diverged"]) == ("1.5", None, "draft")
    kept = {"kind": "step", "value": "Hi", "error": None, "changed_args": True, "code": "1.4"}
    error = "WaitTimeout: its time is over"
    late = {"kind": "event", "value": None, "error": error, "changed_args": False, "code": None}
    assert shown["steps"] == [{"name": "draft", **kept}, {"name": "event", **late}]


async def test_a_decision_names_the_run_that_diverged(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    body = {"keep": ["event"], "drop": ["draft"], "note": "as released"}
    answer = await api.post("/v1/jobs/job_a/steps", json=body)
    assert answer.status == 202, await answer.text()
    (sent,) = desk.sent
    assert isinstance(sent, SettleSteps)
    assert (sent.run_id, sent.keep, sent.drop) == ("run_7", ("event",), ("draft",))
    assert sent.note == "as released"


@pytest.mark.parametrize(
    ("job_id", "body", "status", "name"),
    [
        ("job_a", {"keep": ["other"], "note": "n"}, 404, "step-unknown"),
        ("job_b", {"note": "n"}, 404, "job-unknown"),
        ("job_c", {"note": "n"}, 409, "not-diverged"),
        ("job_a", {"drop": ["draft"]}, 422, "invalid"),
        ("job_a", {"keep": ["draft"], "drop": ["draft"], "note": "n"}, 422, "invalid"),
    ],
)
async def test_what_cannot_be_decided_is_refused(
    desk: Desk, api: TestClient[Any, Any], job_id: str, body: Any, status: int, name: str
) -> None:
    desk.fold("jobs", b"", JOB.encode(make_job("job_c", status="needs_review")))
    answer = await api.post(f"/v1/jobs/{job_id}/steps", json=body)
    assert (answer.status, name in (await answer.json())["type"]) == (status, True)
    assert desk.sent == []
