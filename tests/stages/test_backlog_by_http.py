"""Submissions while too many jobs wait, over the dispatcher itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from support.dispatching import Desk, ScriptedWorker
from support.office import office

from streams.topology.limits import MaxQueued

Client = TestClient[Any, Any]
JOBS = "/v1/tenants/acme/jobs"
DRAFT = {"type": "draft_reply", "input": {}}


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.deploy(max_queued=(MaxQueued("tenant", 2), MaxQueued("global", 40)))
    desk.tenant("acme")
    desk.tenant("bolt")
    desk.driver.advance(0.5)
    return desk


@pytest.fixture
async def client(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Client]:
    monkeypatch.setattr("streams.api.jobs.submit.wall_ms", lambda: desk.driver.now)
    async with office(desk, tmp_path, monkeypatch) as client:
        yield client


async def submit(client: Client, desk: Desk, key: str, path: str = JOBS) -> tuple[int, Any]:
    answer = await client.post(path, json=DRAFT, headers={"Idempotency-Key": key})
    desk.driver.advance(0.3)
    assert answer.headers.get("Retry-After") == ("10" if answer.status == 429 else None)
    return answer.status, await answer.json()


async def test_a_full_tenant_is_answered_429_with_limit_depth_and_cap(
    client: Client, desk: Desk
) -> None:
    assert [(await submit(client, desk, key))[0] for key in "ab"] == [202, 202]
    status, problem = await submit(client, desk, "c")
    assert (status, problem["type"]) == (429, "urn:tidegate:problem:backlog-full")
    assert problem["limit"] == {"scope": "tenant", "value": "acme"}
    assert (problem["depth"], problem["cap"]) == (2, 2)
    assert "2 jobs of tenant 'acme' wait, and max_queued lets 2" in problem["detail"]
    assert (await submit(client, desk, "c", "/v1/tenants/bolt/jobs"))[0] == 202
    ScriptedWorker(desk, slots=1).heartbeat()
    desk.driver.advance(0.3)
    assert (await submit(client, desk, "c"))[0] == 202


async def test_a_repeated_submission_gets_its_job_however_many_wait(
    client: Client, desk: Desk
) -> None:
    _, first = await submit(client, desk, "a")
    await submit(client, desk, "b")
    assert (await submit(client, desk, "c"))[0] == 429
    status, again = await submit(client, desk, "a")
    assert (status, again["job_id"]) == (202, first["job_id"])


async def test_the_depths_near_a_cap_are_shown_fullest_first(client: Client, desk: Desk) -> None:
    assert await (await client.get("/v1/backlog")).json() == {"backlog": []}
    for key in "ab":
        await submit(client, desk, key)
    assert (await (await client.get("/v1/backlog")).json())["backlog"] == [
        {"scope": "tenant", "value": "acme", "jobs": 2, "cap": 2, "full": True},
        {"scope": "global", "value": None, "jobs": 2, "cap": 40, "full": False},
    ]


async def test_the_job_of_an_accepted_event_is_made_however_many_wait(
    client: Client, desk: Desk
) -> None:
    for key in "ab":
        await submit(client, desk, key)
    desk.event("of an accepted event")
    desk.driver.advance(0.3)
    shown = await (await client.get("/v1/jobs?status=pending")).json()
    assert len(shown["jobs"]) == 3
