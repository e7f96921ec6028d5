"""The operator's API over the dispatcher itself: who settles, and in what order with a replay."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from support.dispatching import Desk, ScriptedWorker

from streams.operator import command_results
from streams.operator.http.app_state import STATE, AppState
from streams.operator.http.middlewares import problems
from streams.operator.http.routes import routes
from streams.operator.read_model.database import Database
from streams.operator.read_model.projections import Changes, project
from streams.operator.sent_commands import SentCommands
from streams.serde.records import CommandBody

LIFETIME_MS = 86_400_000
DONE: dict[str, Any] = {"status": "done", "result": {"id": 7}, "note": "the bank shows it"}
NOT_DONE: dict[str, Any] = {"status": "not_done", "note": "the bank does not show it"}
REPLAY = {"incident_note": "the bank is back"}


class Office:
    """What the API needs of the operator: commands reach the dispatcher, rows are what it wrote."""

    home = AppState.home

    def __init__(self, desk: Desk, rows: sqlite3.Connection) -> None:
        self.desk, self.rows, self.topology = desk, rows, desk.topology
        self.sent_commands = SentCommands()

    async def command(self, tenant_id: str, job_id: str, body: CommandBody) -> int:
        offset = len(self.desk.driver.output("jobs.commands"))
        self.desk.command(body, job_id, tenant=tenant_id)
        return offset

    async def query(self, look: Callable[[sqlite3.Connection], Any]) -> Any:
        batch: dict[str, Changes] = {}
        for topic in ("jobs", "ledger", "dlq"):
            for record in self.desk.driver.output(topic):
                project(record, batch)
        for changes in batch.values():
            self.rows.executemany(changes.table.upsert, changes.upserts())
        return look(self.rows)

    async def wait_for(self, row: Any, look: Callable[[sqlite3.Connection], Any], *_: Any) -> Any:
        return await self.query(look)

    async def read_barrier(self, *_: Any) -> None:
        """Every query folds first."""


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk, attempts=1)


@pytest.fixture
def left_unknown(desk: Desk, worker: ScriptedWorker) -> str:
    """A dead job whose only call of a tool that honours keys timed out some minutes ago."""
    worker.heartbeat()
    run = desk.lease(desk.event("t1"))
    worker.outcome(run, worker.claim(run, lifetime_ms=LIFETIME_MS), "unknown")
    worker.end(run, "retry", error="TimeoutError: no answer")
    desk.driver.advance(301)
    worker.heartbeat()
    return run.job_id


@pytest.fixture
async def api(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TestClient[Any, Any]]:
    async def answered(*_: Any) -> None:
        """Marking the letter of a refusal needs a transaction."""

    monkeypatch.setattr(command_results, "answered", answered)
    rows = Database(tmp_path / "m.sqlite").open_writer()
    app = web.Application(middlewares=[problems])
    app[STATE] = Office(desk, rows)  # type: ignore[misc]
    app.add_routes(routes())
    async with TestClient(TestServer(app)) as client:
        yield client
    rows.close()


async def post(api: TestClient[Any, Any], path: str, body: dict[str, Any]) -> tuple[int, str]:
    """The status, and the last word of the problem's type."""
    answer = await api.post(path, json=body)
    return answer.status, (await answer.json()).get("type", "").rpartition(":")[2]


def settlement(job_id: str) -> str:
    return f"/v1/jobs/{job_id}/effects/email:send/reply/settle"


async def test_of_different_answers_at_once_one_stands_and_the_others_are_refused(
    desk: Desk, api: TestClient[Any, Any], left_unknown: str
) -> None:
    bodies = (DONE, NOT_DONE, {**DONE, "result": 8}, NOT_DONE)
    told = await asyncio.gather(*(post(api, settlement(left_unknown), body) for body in bodies))
    stands = desk.ledger()[-1]
    said = [body["status"] for body, (status, _) in zip(bodies, told, strict=True) if status == 202]
    assert set(said) == {"done" if stands.status == "done" else "not_done"}
    assert {name for status, name in told if status != 202} == {"already-settled"}
    written = [entry.status for entry in desk.ledger()]
    assert written == ["claimed", "unknown", stands.status], "it is settled once"


async def test_an_answer_before_a_replay_holds_for_it_and_one_during_it_is_refused(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any], left_unknown: str
) -> None:
    assert (await post(api, settlement(left_unknown), DONE))[0] == 202
    answer = await api.post(f"/v1/dlq/{left_unknown}/replay", json=REPLAY)
    assert answer.status == 202, await answer.text()
    replay = (await answer.json())["job_id"]
    reply = worker.claim(desk.lease(replay), lifetime_ms=LIFETIME_MS)
    assert (reply.kind, reply.result) == ("done", '{"id":7}')
    assert await post(api, settlement(left_unknown), NOT_DONE) == (409, "already-settled")


async def test_an_answer_while_a_replay_works_in_the_scope_is_refused_whichever_job_it_names(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any], left_unknown: str
) -> None:
    answer = await api.post(f"/v1/dlq/{left_unknown}/replay", json=REPLAY)
    replay = (await answer.json())["job_id"]
    run = desk.lease(replay)
    for job_id in (left_unknown, replay):
        assert await post(api, settlement(job_id), NOT_DONE) == (409, "not-in-review")
    claim = worker.claim(run, lifetime_ms=LIFETIME_MS)
    assert (claim.kind, claim.repeat) == ("granted", True)
    worker.outcome(run, claim, "unknown")
    worker.end(run, "retry", error="TimeoutError: no answer")
    assert await post(api, settlement(left_unknown), DONE) == (409, "too-early")
    desk.driver.advance(301)
    assert (await post(api, settlement(left_unknown), DONE))[0] == 202
    again = await api.post(f"/v1/dlq/{replay}/replay", json=REPLAY)
    worker.heartbeat()
    last = desk.lease((await again.json())["job_id"])
    assert worker.claim(last, lifetime_ms=LIFETIME_MS).kind == "done"


async def test_a_fresh_scope_does_not_keep_the_old_effect_from_an_answer(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any], left_unknown: str
) -> None:
    fresh = {**REPLAY, "fresh_scope": True}
    path = f"/v1/dlq/{left_unknown}/replay"
    assert await post(api, path, fresh) == (409, "effects-done")
    answer = await api.post(path, json={**fresh, "repeat_effects": ["email:send/reply"]})
    replay = (await answer.json())["job_id"]
    assert (await post(api, settlement(left_unknown), NOT_DONE))[0] == 202
    reply = worker.claim(desk.lease(replay), lifetime_ms=LIFETIME_MS)
    assert (reply.kind, reply.repeat) == ("granted", False)


async def test_a_purged_job_has_no_effect_to_settle(
    desk: Desk, api: TestClient[Any, Any], left_unknown: str
) -> None:
    desk.driver.advance(40 * 86_400)
    assert await post(api, settlement(left_unknown), DONE) == (404, "job-unknown")
    assert desk.driver.output("ledger")[-1].value is None, "the purge's tombstone is the last"
