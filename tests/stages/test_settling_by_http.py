"""The operator's API over the dispatcher itself: who settles, and in what order with a replay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from support.dispatching import Desk, ScriptedWorker
from support.office import office

LIFETIME_MS = 86_400_000
DONE: dict[str, Any] = {"status": "done", "result": {"id": 7}, "note": "the bank shows it"}
NOT_DONE: dict[str, Any] = {"status": "not_done", "note": "the bank does not show it"}
REPLAY = {"incident_note": "the bank is back"}


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
    async with office(desk, tmp_path, monkeypatch) as client:
        yield client


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
