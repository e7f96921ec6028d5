"""The operator's API over shared effects: a job's view, the list across jobs, settlements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp.test_utils import TestClient
from support.dispatching import Desk, ScriptedWorker
from support.office import office
from yarl import URL

from streams.http.moments import rfc3339
from streams.serde.records import Lease

ACTION = "@tenant/email:send/reply"
DAY_SECONDS = 86_400
DONE: dict[str, Any] = {"status": "done", "result": {"id": 7}, "note": "the bank shows it"}
SHARED: dict[str, Any] = {"once_per": "tenant", "keep_ms": 90 * DAY_SECONDS * 1000}


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.tenant("acme")
    return desk


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    worker = ScriptedWorker(desk, attempts=9, backoff=(0,))
    worker.heartbeat()
    return worker


@pytest.fixture
async def api(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TestClient[Any, Any]]:
    async with office(desk, tmp_path, monkeypatch) as client:
        yield client


async def get(api: TestClient[Any, Any], path: str) -> dict[str, Any]:
    answer = await api.get(path)
    assert answer.status == 200, await answer.text()
    found: dict[str, Any] = await answer.json()
    return found


async def settle(api: TestClient[Any, Any], path: str, body: dict[str, Any] = DONE) -> Any:
    url = URL(f"{path}/effects/{quote(ACTION, safe='')}/settle", encoded=True)
    answer = await api.post(url, json=body)
    return answer.status, await answer.json()


async def named(api: TestClient[Any, Any], query: str) -> list[tuple[str, str, str]]:
    found = await get(api, f"/v1/effects?{query}")
    return [(each["action"], each["job_id"], each["status"]) for each in found["effects"]]


def unknown(desk: Desk, worker: ScriptedWorker, key: str, end: Any = "failed") -> Lease:
    """A run that ended and left the shared effect unknown."""
    lease = desk.lease(desk.event(key))
    reply = worker.claim(lease, **SHARED)
    if reply.kind == "granted":
        worker.outcome(lease, reply, "unknown", once_per="tenant")
    worker.end(lease, "review" if reply.kind == "review" else end, error="x")
    return lease


async def test_a_job_shows_the_shared_effects_that_it_asked_for(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any]
) -> None:
    first, second = desk.lease(desk.event("t1")), desk.lease(desk.event("t2"))
    worker.outcome(first, worker.claim(first, **SHARED), "done", "1", once_per="tenant")
    worker.claim(second, **SHARED)
    worker.claim(second)
    shown = (await get(api, f"/v1/jobs/{second.job_id}"))["effects"]
    assert {(each["action"], each["once_per"], each["job_id"]) for each in shown} == {
        (ACTION, "tenant", first.job_id),
        ("email:send/reply", "job", second.job_id),
    }
    kept = [each for each in shown if each["once_per"] == "tenant"]
    assert (kept[0]["status"], kept[0]["result"]) == ("done", 1)
    assert kept[0]["kept_until"] is not None


async def test_effects_are_found_across_jobs_and_each_once(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any]
) -> None:
    first, second = desk.lease(desk.event("t1")), desk.lease(desk.event("t2"))
    worker.outcome(first, worker.claim(first, **SHARED), "done", "1", once_per="tenant")
    desk.driver.advance(1)
    worker.claim(second, **SHARED)
    worker.claim(second, "crm:note/1")
    note = ("crm:note/1", second.job_id, "claimed")
    shared = (ACTION, first.job_id, "done")
    assert await named(api, "tenant_id=acme") == [note, shared]
    assert await named(api, "tenant_id=globex") == []
    assert await named(api, "tool=crm:note") == [note]
    assert await named(api, "tenant_id=acme&key=reply") == [shared]
    assert await named(api, "status=claimed") == [note]
    page = await get(api, "/v1/effects?limit=1")
    rest = await get(api, f"/v1/effects?limit=1&cursor={page['next_cursor']}")
    found = [each["action"] for each in page["effects"] + rest["effects"]]
    assert (found, rest["next_cursor"]) == (["crm:note/1", ACTION], None)
    assert (await api.get("/v1/effects?status=shared")).status == 422
    of_tenant = await get(api, "/v1/tenants/acme/effects?tool=crm:note")
    assert [each["tenant_id"] for each in of_tenant["effects"]] == ["acme"]


async def test_a_person_settles_it_for_one_job_and_all_go_on(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any]
) -> None:
    first = unknown(desk, worker, "t1")
    second, third = unknown(desk, worker, "t2"), unknown(desk, worker, "t3")
    (asked,) = (await get(api, f"/v1/jobs/{third.job_id}"))["effects"]
    assert (asked["status"], asked["settle_after"] is not None) == ("review", True)
    status, problem = await settle(api, f"/v1/jobs/{third.job_id}")
    assert (status, problem["type"].rpartition(":")[2]) == (409, "too-early")
    desk.driver.advance(301)
    worker.heartbeat()
    status, shown = await settle(api, f"/v1/jobs/{third.job_id}")
    assert (status, shown["answered"], shown["effects"][0]["result"]) == (202, True, {"id": 7})
    assert [desk.job(each.job_id).status for each in (second, third)] == ["running"] * 2
    assert desk.job(first.job_id).status == "failed"
    assert (await settle(api, f"/v1/jobs/{first.job_id}"))[0] == 202, "said twice"
    otherwise = {"status": "not_done", "note": "no"}
    assert (await settle(api, f"/v1/jobs/{first.job_id}", otherwise))[0] == 409


async def test_it_is_settled_without_a_job_when_its_job_is_forgotten(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any]
) -> None:
    unknown(desk, worker, "t1")
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000 + 1)
    desk.driver.advance(1)
    (lost,) = (await get(api, "/v1/effects/unknown?tenant_id=acme"))["effects"]
    assert (lost["action"], lost["job_status"], lost["kept_until"]) == (ACTION, None, None)
    assert lost["settle_after"] is not None
    assert (await settle(api, "/v1/tenants/globex"))[0] == 404
    status, shown = await settle(api, "/v1/tenants/acme")
    assert (status, shown["answered"], shown["result"]) == (202, True, {"id": 7})
    assert (await get(api, "/v1/effects/unknown"))["effects"] == []


async def test_an_effect_of_one_job_is_not_settled_by_its_tenant(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any]
) -> None:
    lease = desk.lease(desk.event("t1"))
    worker.claim(lease)
    for action in ("email:send%2Freply", quote(f"{lease.scope}/email:send/reply", safe="")):
        url = URL(f"/v1/tenants/acme/effects/{action}/settle", encoded=True)
        assert (await api.post(url, json=DONE)).status == 404


async def test_what_a_job_makes_now_or_will_ask_for_again_is_not_lost(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any]
) -> None:
    lease = desk.lease(desk.event("t1"))
    worker.claim(lease, **SHARED)
    assert (await get(api, "/v1/effects/unknown"))["effects"] == []
    worker.end(lease, "retry", after=600, error="TransientError: x")
    assert (await get(api, "/v1/effects/unknown"))["effects"] == []
    desk.cancel(lease.job_id)
    assert len((await get(api, "/v1/effects/unknown"))["effects"]) == 1


async def test_a_fresh_replay_need_not_name_a_shared_effect_and_must_not(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any]
) -> None:
    lease = desk.lease(desk.event("t1"))
    worker.outcome(lease, worker.claim(lease, **SHARED), "done", "1", once_per="tenant")
    worker.end(lease, "failed", error="PermanentError: x")
    wanted = {"incident_note": "mended", "fresh_scope": True}
    replay = f"/v1/dlq/{lease.job_id}/replay"
    refused = await api.post(replay, json=wanted | {"repeat_effects": [ACTION]})
    assert (refused.status, "counts beyond" in await refused.text()) == (422, True)
    made = await api.post(replay, json=wanted)
    assert made.status == 202, await made.text()
    again = worker.claim(desk.lease((await made.json())["job_id"]), **SHARED)
    assert (again.kind, again.result) == ("done", "1")


async def test_a_forgotten_effect_is_still_shown_by_the_jobs_that_know_its_result(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any]
) -> None:
    first, second = desk.lease(desk.event("t1")), desk.lease(desk.event("t2"))
    short = SHARED | {"keep_ms": 60_000}
    worker.outcome(first, worker.claim(first, **short), "done", "1", once_per="tenant")
    worker.claim(second, **short)
    worker.stay(70, first, second)
    assert await named(api, "tenant_id=acme") == []
    (shown,) = (await get(api, f"/v1/jobs/{second.job_id}"))["effects"]
    assert (shown["action"], shown["result"], shown["job_id"]) == (ACTION, 1, first.job_id)


async def test_it_is_settled_while_a_job_of_it_waits_and_not_while_one_makes_it(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any]
) -> None:
    first = unknown(desk, worker, "t1")
    second = desk.lease(desk.event("t2"))
    worker.end(second, "retry", after=3_600, error="TransientError: x")
    desk.driver.advance(301)
    status, problem = await settle(api, f"/v1/jobs/{second.job_id}")
    assert status == 404, f"it has not asked for it: {problem}"
    body = {"status": "not_done", "note": "not there"}
    assert (await settle(api, f"/v1/jobs/{first.job_id}", body))[0] == 202
    worker.heartbeat()
    third, fourth = desk.lease(desk.event("t3")), desk.lease(desk.event("t4"))
    assert worker.claim(third, **SHARED).kind == "granted"
    assert worker.claim(fourth, **SHARED).kind == "busy"
    worker.end(fourth, "failed", error="x")
    worker.stay(310, third)
    (shown,) = (await get(api, f"/v1/jobs/{fourth.job_id}"))["effects"]
    assert (shown["status"], shown["settle_after"]) == ("claimed", None), "a run makes it now"
    status, problem = await settle(api, f"/v1/jobs/{fourth.job_id}")
    assert (status, problem["type"].rpartition(":")[2]) == (409, "not-in-review")
    worker.end(third, "retry", after=3_600, error="TransientError: x")
    assert desk.job(third.job_id).status == "scheduled"
    assert (await settle(api, f"/v1/jobs/{third.job_id}"))[0] == 202


async def test_a_job_that_waits_for_another_jobs_effect_says_so(
    desk: Desk, worker: ScriptedWorker, api: TestClient[Any, Any]
) -> None:
    first, second = desk.lease(desk.event("t1")), desk.lease(desk.event("t2"))
    granted = worker.claim(first, **SHARED)
    began = rfc3339(desk.driver.now)
    worker.stay(20, first, second)
    assert worker.claim(second, **SHARED).kind == "busy"
    worker.end(second, "blocked", result='["tenant","email:send/reply"]', error="busy")
    shown = await get(api, f"/v1/jobs/{second.job_id}")
    asks_again = shown["next_retry_at"]
    assert (shown["status"], shown["waits"]) == (
        "scheduled",
        [
            {
                "kind": "effect",
                "name": ACTION,
                "job_id": first.job_id,
                "since": began,
                "until": asks_again,
                "parked": True,
            }
        ],
    )
    why = shown["why"]
    assert (why["reason"], why["since"]) == ("effect", began)
    assert why["detail"] == (
        f"effect {ACTION} has been under way in job {first.job_id} since {began}: it goes on when "
        f"the outcome is recorded, or asks again at {asks_again}"
    )
    assert (await get(api, "/v1/jobs?status=scheduled"))["jobs"][0]["why"] == why
    worker.outcome(first, granted, "done", "1", once_per="tenant")
    shown = await get(api, f"/v1/jobs/{second.job_id}")
    assert (shown["status"], shown["waits"], shown["why"]) == ("running", [], None)
