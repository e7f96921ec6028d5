"""A key that is sent again gets the decision on the first call, whatever has changed since."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient
from support.operator_cluster import make_entry, make_job
from support.operator_desk import OperatorDesk, client_of
from support.webhooks import tenant

from streams.access.principal import BOOTSTRAP
from streams.api.read_model.database import Database
from streams.serde.codec import JOB, LEDGER_ENTRY, SCHEDULE_ROW
from streams.serde.ids import keyed_command_id
from streams.serde.keys import ledger_key, schedule_key
from streams.serde.records import ScheduleRow, ScheduleSpec

ENDED = make_job("job_a", status="cancelled")
SETTLED = make_entry(ENDED, "email", status="failed", result=None, settled_by="ann", note="no")
SPEC = ScheduleSpec("report", "{}", None, 900_000, None, "UTC", "latest", 60_000, "allow", 0)
ROW = ScheduleRow(
    "acme",
    "daily",
    2,
    SPEC,
    None,
    True,
    "",
    "ann",
    5,
    "",
    6,
    7,
    "",
    None,
    None,
    None,
    None,
    "",
    1,
    2,
)

SCHEDULES = "/v1/tenants/acme/schedules"
CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "/v1/jobs/job_a/cancel": ({"reason": "not needed"}, "job-ended"),
    "/v1/jobs/job_a/move": ({"pool": "default", "note": "more room"}, "job-ended"),
    "/v1/jobs/job_a/steps": ({"drop": ["draft"], "note": "as released"}, "not-diverged"),
    "/v1/jobs/job_a/effects/email/settle": (
        {"status": "done", "note": "the bank says so"},
        "already-settled",
    ),
    SCHEDULES: ({"id": "daily", "job": "report", "every_seconds": 900}, "precondition-failed"),
    f"{SCHEDULES}/daily/pause": ({"note": "holidays"}, "precondition-failed"),
    f"{SCHEDULES}/daily/resume": ({"note": "they are over"}, "precondition-failed"),
}
"""Calls that are refused now for what they did themselves: their bodies, and the refusals."""


class Desk(OperatorDesk):
    """A job that ended, an effect that was settled, and a schedule that was changed."""

    def __init__(self, rows: sqlite3.Connection) -> None:
        super().__init__(rows)
        entry = ledger_key("acme", SETTLED.scope, SETTLED.action), LEDGER_ENTRY.encode(SETTLED)
        self.project([("tenants", *tenant("acme")), ("jobs", b"", JOB.encode(ENDED))])
        self.project([("ledger", *entry)])
        self.project([("schedules", schedule_key("acme", "daily"), SCHEDULE_ROW.encode(ROW))])


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    rows = Database(tmp_path / "m.sqlite").open_writer()
    yield Desk(rows)
    rows.close()


@pytest.fixture
async def api(desk: Desk) -> AsyncIterator[TestClient[Any, Any]]:
    async with client_of(desk) as client:
        yield client


async def asked(api: TestClient[Any, Any], path: str, key: str) -> tuple[int, str, Any]:
    """The status, the name of the problem if there is one, and the answer."""
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    if "schedules" in path:
        headers["If-Match"] = '"as-it-was-before"'
    answer = await api.post(path, data=orjson.dumps(CALLS[path][0]), headers=headers)
    told = await answer.json()
    name = told["type"].rpartition(":")[2] if answer.status >= 400 else ""
    return answer.status, name, told


def command_of(path: str, key: str) -> str:
    return keyed_command_id(BOOTSTRAP.id, path, orjson.dumps(CALLS[path][0]), key)


@pytest.mark.parametrize("path", CALLS)
async def test_what_was_carried_out_is_answered_again_under_its_key_alone(
    desk: Desk, api: TestClient[Any, Any], path: str
) -> None:
    desk.answer(command_of(path, "k1"))
    status, name, told = await asked(api, path, "k1")
    assert (status < 300, name) == (True, ""), told
    status, name, _ = await asked(api, path, "k2")
    assert (status, name) == (412 if "schedules" in path else 409, CALLS[path][1])
    assert desk.sent == []


@pytest.mark.parametrize("path", CALLS)
async def test_what_was_refused_is_refused_again_for_the_same_reason(
    desk: Desk, api: TestClient[Any, Any], path: str
) -> None:
    desk.answer(command_of(path, "k1"), "job_too_large", "as it was then")
    status, name, told = await asked(api, path, "k1")
    assert (status, name, told["detail"]) == (409, "job-too-large", "as it was then")
    assert desk.sent == []


async def test_a_schedule_that_the_dispatcher_found_changed_is_refused_again(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    path = f"{SCHEDULES}/daily/pause"
    desk.answer(command_of(path, "k1"), "schedule_changed", "it has another tag")
    status, name, told = await asked(api, path, "k1")
    assert (status, name) == (412, "precondition-failed")
    assert "it has another tag" in told["detail"]


async def test_a_schedule_that_was_removed_since_its_call_is_unknown(
    desk: Desk, api: TestClient[Any, Any]
) -> None:
    desk.answer(command_of(SCHEDULES, "k1"))
    desk.project([("schedules", schedule_key("acme", "daily"), None)])
    status, name, _ = await asked(api, SCHEDULES, "k1")
    assert (status, name) == (404, "schedule-unknown")
