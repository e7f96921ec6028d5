"""Job types as workers announce them: shown by the API, which checks new inputs by them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from pydantic import BaseModel
from support.dispatching import Desk
from support.office import office

from streams import App, Context, Retry
from streams.serde.codec import JOB_TYPES
from streams.topology.limits import Limit
from streams.topology.model import JobType

Client = TestClient[Any, Any]
JOBS = "/v1/tenants/acme/jobs"


LIMITS = (
    Limit("refunds", "job_type", "ref*", concurrency=5),
    Limit("mails", "tool", "email", concurrency=1),
    Limit("reports", "job_type", "report", concurrency=1),
)
DECLARED = {"refund": JobType("refund", max_attempts=9, timeout_seconds=30)}


class Refund(BaseModel):
    order_id: str
    cents: int


class Refunded(BaseModel):
    receipt: str


def shop(name: str = "shop", version: str | None = "7") -> App:
    """An application with a typed and an untyped job type."""
    app = App(name, version=version)

    @app.job("refund", retry=Retry(3, (1, 2.5)), timeout=60, scopes={"payment:refund", "email"})
    async def refund(ctx: Context[Refund]) -> Refunded:
        return Refunded(receipt=ctx.input.order_id)

    @app.job("report")
    async def report(ctx: Context) -> None: ...

    return app


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.deploy(limits=LIMITS, job_types=DECLARED)
    desk.tenant("acme")
    desk.driver.advance(0.5)
    return desk


@pytest.fixture
async def client(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Client]:
    monkeypatch.setattr("streams.api.jobs.submit.wall_ms", lambda: desk.driver.now)
    async with office(desk, tmp_path, monkeypatch) as client:
        yield client


def announce(desk: Desk, app: App) -> None:
    found = app.announced()
    desk.driver.pipe("jobs.types", found.app.encode(), JOB_TYPES.encode(found))
    desk.driver.advance(0.1)


async def submit(client: Client, key: str | None = None, **body: Any) -> tuple[int, Any]:
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = await client.post(JOBS, json={"type": "refund", **body}, headers=headers)
    return answer.status, await answer.json()


async def get(client: Client, path: str) -> tuple[int, Any]:
    answer = await client.get(path)
    return answer.status, await answer.json()


async def test_an_input_that_does_not_fit_is_answered_422_naming_each_field(
    client: Client, desk: Desk
) -> None:
    announce(desk, shop())
    status, problem = await submit(client, input={"cents": "s3cret"})
    assert (status, problem["type"]) == (422, "urn:tidegate:problem:invalid-request")
    assert problem["errors"] == [
        {"field": "input.cents", "message": "must be of type integer"},
        {"field": "input.order_id", "message": "must be given"},
    ]
    assert "s3cret" not in str(problem), "a value may be a secret"
    assert (await get(client, "/v1/jobs"))[1]["jobs"] == []
    assert (await submit(client, input={"cents": 5, "order_id": "o"}))[0] == 202


async def test_of_an_untyped_or_unknown_type_any_input_is_taken(client: Client, desk: Desk) -> None:
    announce(desk, shop())
    for type_ in ("report", "not_announced"):
        assert (await submit(client, type=type_, input={"any": ["thing"]}))[0] == 202


async def test_a_repeated_submission_gets_its_job_although_its_input_no_longer_fits(
    client: Client, desk: Desk
) -> None:
    _, first = await submit(client, "k", input={"order": 1})
    announce(desk, shop())
    status, again = await submit(client, "k", input={"order": 1})
    assert (status, again["job_id"]) == (202, first["job_id"])
    assert (await submit(client, "other", input={"order": 1}))[0] == 422


async def test_an_announced_type_is_not_doubted(client: Client, desk: Desk) -> None:
    assert "names a job type 'report'" in (await submit(client, type="report"))[1]["warning"]
    announce(desk, shop())
    assert (await submit(client, type="report"))[1]["warning"] is None
    assert "Did you mean 'report'" in (await submit(client, type="repotr"))[1]["warning"]


async def test_of_several_applications_with_a_type_the_newest_announcement_counts(
    client: Client, desk: Desk
) -> None:
    announce(desk, shop())
    loose = App("loose")

    @loose.job("refund")
    async def refund(ctx: Context) -> None: ...

    announce(desk, loose)
    assert (await get(client, "/v1/job-types/refund"))[1]["app"] == "loose"
    assert (await submit(client, input={}))[0] == 202
    announce(desk, shop())
    assert (await submit(client, input={}))[0] == 422


async def test_a_type_that_is_gone_from_its_code_is_shown_no_more(
    client: Client, desk: Desk
) -> None:
    announce(desk, shop())
    fewer = shop()
    del fewer.jobs["refund"]
    announce(desk, fewer)
    status, problem = await get(client, "/v1/job-types/refund")
    assert (status, problem["type"]) == (404, "urn:tidegate:problem:job-type-unknown")
    assert [each["type"] for each in (await get(client, "/v1/job-types"))[1]["job_types"]] == [
        "report"
    ]
    assert (await submit(client, input={}))[0] == 202


async def test_the_list_has_all_that_a_type_declares_and_what_the_topology_sets(
    client: Client, desk: Desk
) -> None:
    announce(desk, shop())
    status, found = await get(client, "/v1/job-types")
    refund, report = found["job_types"]
    assert (status, list(found)) == (200, ["job_types"])
    assert refund.pop("announced_at").endswith("Z")
    input_schema, result_schema = refund.pop("input_schema"), refund.pop("result_schema")
    assert input_schema["properties"]["cents"] == {"title": "Cents", "type": "integer"}
    assert result_schema["required"] == ["receipt"]
    assert refund == {
        "type": "refund",
        "app": "shop",
        "version": "7",
        "retry": {"max_attempts": 9, "backoff": [1, 2.5]},
        "timeout_seconds": 30,
        "tools": ["email", "payment:refund"],
        "pool": "default",
        "limits": ["refunds", "mails"],
    }
    assert (report["input_schema"], report["tools"], report["limits"]) == (None, None, ["reports"])


async def test_the_input_of_a_schedule_is_checked_when_it_is_set(
    client: Client, desk: Desk
) -> None:
    announce(desk, shop())
    daily = {"id": "daily", "every_seconds": 86_400, "job": "refund", "input": {"cents": 1}}
    answer = await client.post("/v1/tenants/acme/schedules", json=daily)
    assert answer.status == 422
    assert (await answer.json())["errors"] == [
        {"field": "input.order_id", "message": "must be given"}
    ]
