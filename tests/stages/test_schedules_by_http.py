"""The calls on schedules, over the dispatcher itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from support.office import office
from support.scheduling import MINUTE, Clockwork, spec

from streams.api.decisions import decided
from streams.api.schedules import changes
from streams.api.schedules import table as resource
from streams.schedules import time_zones
from streams.serde.records import SetSchedule

Client = TestClient[Any, Any]
PATH = "/v1/tenants/acme/schedules"
REPORT = {"id": "report", "cron": "30 17 * * *", "tz": "Europe/Berlin", "job": "draft_reply"}


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> Clockwork:
    works = Clockwork()
    works.tenant("acme")
    for module in ("streams.api.schedules.changes", "streams.api.schedules.table"):
        monkeypatch.setattr(f"{module}.wall_ms", lambda: works.driver.now)
    return works


@pytest.fixture
async def client(
    works: Clockwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Client]:
    async with office(works, tmp_path, monkeypatch) as client:
        yield client


async def ask(client: Client, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    answer = await client.request(method, path, json=body)
    return answer.status, await answer.json()


async def test_a_schedule_is_created_and_shown_with_its_next_five_times(client: Client) -> None:
    status, made = await ask(client, "POST", PATH, {**REPORT, "input": {"n": 1}})
    assert status == 201
    assert made["next"] == [
        "2025-06-15T15:30:00.000Z",
        *(f"2025-06-{day}T15:30:00.000Z" for day in range(16, 20)),
    ]
    contract = {
        "id": "report",
        "cron": "30 17 * * *",
        "every_seconds": None,
        "at": None,
        "tz": "Europe/Berlin",
        "job": "draft_reply",
        "input": {"n": 1},
        "missed": "latest",
        "grace_seconds": 60,
        "overlap": "allow",
        "window_seconds": 0,
        "paused": False,
    }
    assert {name: made[name] for name in contract} == contract
    assert made["tzdata"] == time_zones.version()
    status, shown = await ask(client, "GET", f"{PATH}/report")
    assert (status, shown) == (200, {k: v for k, v in made.items() if k != "warning"})


async def test_the_same_again_changes_nothing_and_another_one_begins_a_generation(
    client: Client,
) -> None:
    await ask(client, "POST", PATH, REPORT)
    status, again = await ask(client, "POST", PATH, REPORT)
    assert (status, again["generation"]) == (200, 1)
    status, other = await ask(client, "POST", PATH, {**REPORT, "tz": "UTC"})
    assert (status, other["generation"], other["tz"]) == (200, 2, "UTC")


async def test_its_job_says_which_schedule_and_time_it_is_of(
    client: Client, works: Clockwork
) -> None:
    await ask(client, "POST", PATH, REPORT)
    works.driver.advance(24 * MINUTE)
    (job,) = works.made("report")
    _, shown = await ask(client, "GET", f"/v1/jobs/{job.job_id}")
    assert (shown["schedule_id"], shown["scheduled_for"]) == ("report", "2025-06-15T15:30:00.000Z")
    _, row = await ask(client, "GET", f"{PATH}/report")
    assert row["last"] == {"job_id": job.job_id, "scheduled_for": "2025-06-15T15:30:00.000Z"}
    assert row["next"][0] == "2025-06-16T15:30:00.000Z"


async def test_it_is_paused_resumed_listed_and_deleted(client: Client, works: Clockwork) -> None:
    for name in ("report", "other"):
        await ask(client, "POST", PATH, {**REPORT, "id": name, "every_seconds": 60, "cron": None})
    status, paused = await ask(client, "POST", f"{PATH}/report/pause", {"note": "closed"})
    assert (status, paused["paused"], paused["note"], len(paused["next"])) == (
        200,
        True,
        "closed",
        5,
    )
    works.driver.advance(2 * MINUTE)
    assert works.made("report") == []
    status, resumed = await ask(client, "POST", f"{PATH}/report/resume", {"note": "open"})
    assert (status, resumed["paused"], resumed["note"]) == (200, False, "open")
    for path in (PATH, "/v1/schedules", "/v1/schedules?tenant_id=acme"):
        status, listed = await ask(client, "GET", path)
        assert (status, {row["id"] for row in listed["schedules"]}) == (200, {"report", "other"})
    assert (await ask(client, "DELETE", f"{PATH}/report"))[1]["removed"] is True
    assert (await ask(client, "GET", f"{PATH}/report"))[0] == 404
    for method, path in (("DELETE", ""), ("POST", "/pause"), ("POST", "/resume")):
        status, told = await ask(client, method, f"{PATH}/report{path}", {})
        assert (status, told["type"].rpartition(":")[2]) == (404, "schedule-unknown")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cron": "0 9 30 2 *"}, "cron"),
        ({"cron": "every day"}, "cron"),
        ({"cron": None, "at": "2025-06-15T15:00:00Z"}, "at"),
        ({"until": "2025-06-15T15:10:00Z"}, "until"),
        ({"tz": "Europe/Bonn"}, "tz"),
        ({"missed": "never"}, "missed"),
        ({"overlap": "both"}, "overlap"),
        ({"id": "a b"}, "id"),
        ({"at": "tomorrow"}, "at"),
        ({"every_seconds": 5}, "cron"),
        ({"burst": True}, "burst"),
    ],
    ids=str,
)
async def test_one_that_is_wrong_or_never_fires_is_422(
    client: Client, changes: dict[str, Any], field: str
) -> None:
    status, told = await ask(client, "POST", PATH, REPORT | changes)
    assert status == 422
    assert [error["field"] for error in told["errors"]] == [field]


async def test_a_closed_or_unknown_tenant_gets_no_schedule(
    client: Client, works: Clockwork
) -> None:
    assert (await ask(client, "POST", "/v1/tenants/none/schedules", REPORT))[0] == 404
    works.tenant("acme", disabled=True)
    assert (await ask(client, "POST", PATH, REPORT))[0] == 403


async def test_a_declared_one_is_changed_in_its_code(client: Client, works: Clockwork) -> None:
    from test_declared_schedules import each

    works.declare(each("report"))
    status, told = await ask(client, "POST", PATH, REPORT)
    assert (status, told["type"].rpartition(":")[2]) == (409, "schedule-declared")
    assert (await ask(client, "POST", f"{PATH}/report/pause", {}))[0] == 200


def test_a_row_that_another_release_made_is_shown_without_times(works: Clockwork) -> None:
    works.schedule(cron="0 9 * * *")
    row = works.row()
    object.__setattr__(row.spec, "tz", "Mars/Base")
    assert resource.schedule_json(row)["next"] == []


async def test_a_change_names_the_schedule_that_it_saw(works: Clockwork, client: Client) -> None:
    await ask(client, "POST", PATH, REPORT)
    path = f"{PATH}/report"
    seen = (await client.get(path)).headers["ETag"]
    works.driver.advance(2 * 86_400)
    assert (await client.get(path)).headers["ETag"] == seen, "its times change nothing of it"
    calls: list[tuple[str, str, Any]] = [
        ("POST", PATH, REPORT),
        ("POST", f"{path}/pause", {"note": "x"}),
        ("DELETE", path, None),
    ]
    assert (await ask(client, "POST", PATH, {**REPORT, "tz": "UTC"}))[0] == 200
    present = (await client.get(path)).headers["ETag"]
    assert present != seen
    for method, at, body in calls:
        stale = await client.request(method, at, json=body, headers={"If-Match": seen})
        told = await stale.json()
        assert (stale.status, told["etag"]) == (412, present)
        assert told["type"] == "urn:tidegate:problem:precondition-failed"
    new = await client.post(PATH, json=REPORT, headers={"If-None-Match": "*"})
    assert new.status == 412
    assert (await client.delete(path, headers={"If-Match": present})).status == 200
    assert (await client.post(PATH, json=REPORT, headers={"If-Match": present})).status == 412
    assert (await client.post(PATH, json=REPORT, headers={"If-None-Match": "*"})).status == 201


async def test_the_dispatcher_refuses_a_change_of_what_was_changed_on_the_way(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another operator's command comes between the look and the decision."""
    await ask(client, "POST", PATH, REPORT)
    path = f"{PATH}/report"
    seen = (await client.get(path)).headers["ETag"]
    send, others = decided, [SetSchedule("report", spec(), None, "", "other")]

    async def late(state: Any, tenant_id: str, job_id: str, body: Any, *topics: str) -> Any:
        if others:
            await send(state, tenant_id, job_id, others.pop(), *topics)
        return await send(state, tenant_id, job_id, body, *topics)

    monkeypatch.setattr(changes, "decided", late)
    refused = await client.delete(path, headers={"If-Match": seen})
    present = await client.get(path)
    assert (refused.status, (await refused.json())["etag"]) == (412, present.headers["ETag"])
    assert (await present.json())["every_seconds"] == 60


async def test_a_repeated_call_is_decided_once_under_its_key(client: Client) -> None:
    """A pause whose answer was lost, and which is sent again after somebody else's resume."""
    await ask(client, "POST", PATH, REPORT)
    pause, key = f"{PATH}/report/pause", {"Idempotency-Key": "night"}
    assert (await client.post(pause, json={"note": "x"}, headers=key)).status == 200
    assert (await ask(client, "POST", f"{PATH}/report/resume", {}))[1]["paused"] is False
    again = await client.post(pause, json={"note": "x"}, headers=key)
    assert (again.status, (await again.json())["paused"]) == (200, False)
    for note, headers in (("y", key), ("x", {})):
        await ask(client, "POST", f"{PATH}/report/resume", {})
        asked = await client.post(pause, json={"note": note}, headers=headers)
        assert (await asked.json())["paused"] is True, "it is another command"
