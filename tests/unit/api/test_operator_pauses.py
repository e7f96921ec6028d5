"""Pauses by HTTP: who paused what and why is written to every partition, shown, and resumed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.operator_cluster import make_job
from support.operator_desk import OperatorDesk, client_of

from streams.api.read_model.database import Database
from streams.serde.codec import JOB, TENANT
from streams.serde.ids import partition_for
from streams.serde.keys import tenant_key
from streams.serde.records import EventInfo, Job, LimitKey, TenantRecord
from streams.topology.limits import Limit

PAUSE = {"scope": "job_type", "value": "draft_reply", "reason": "the bank is down", "by": "ann"}


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


@pytest.fixture
def desk(rows: sqlite3.Connection) -> OperatorDesk:
    desk = OperatorDesk(rows)
    record = TenantRecord("acme", "tenant", "", False, "{}")
    desk.project([("tenants", tenant_key("acme", "tenant", ""), TENANT.encode(record))])
    return desk


async def call(desk: OperatorDesk, what: str, **body: Any) -> tuple[int, Any]:
    async with client_of(desk) as client:
        answer = await client.post(f"/v1/limits/{what}", json=body)
        return answer.status, await answer.json()


async def shown(desk: OperatorDesk, path: str = "/v1/limits") -> Any:
    async with client_of(desk) as client:
        return await (await client.get(path)).json()


def has(desk: OperatorDesk, *jobs: Job) -> None:
    desk.project(("jobs", b"", JOB.encode(job)) for job in jobs)


async def test_a_pause_is_written_to_each_partition_and_shown_with_who_and_why(
    desk: OperatorDesk,
) -> None:
    status, told = await call(desk, "pause", **PAUSE)
    assert (status, told["warning"] is None) == (200, False), "no job of the type is known"
    written = {key[2]: partition for key, partition in desk.tenant_records}
    assert written == {f"{n}/job_type/draft_reply": n for n in range(desk.topology.partitions)}
    (pause,) = (await shown(desk))["pauses"]
    assert {**pause, "warning": told["warning"]} == told
    assert (pause["by"], pause["reason"]) == ("ann", "the bank is down")


async def test_a_tenants_pause_is_one_record_in_its_partition(desk: OperatorDesk) -> None:
    await call(desk, "pause", scope="tenant", value="acme", reason="owes us")
    assert desk.tenant_records == [(("acme", "pause", ""), partition_for("acme", 4))]
    (pause,) = (await shown(desk))["pauses"]
    assert (pause["scope"], pause["value"], pause["by"]) == ("tenant", "acme", "operator")
    assert (await call(desk, "resume", scope="tenant", value="acme", by="bob"))[0] == 200
    assert (await shown(desk))["pauses"] == []


async def test_what_nothing_declares_any_more_is_resumed_and_only_once(desk: OperatorDesk) -> None:
    gone = {"scope": "pool", "value": "default"}
    await call(desk, "pause", **gone, reason="x")
    desk.topology = replace(desk.topology, pools=())
    status, told = await call(desk, "resume", **gone, by="bob")
    assert (status, told["resumed_by"], told["reason"]) == (200, "bob", "x")
    status, told = await call(desk, "resume", **gone)
    assert (status, told["type"]) == (409, "urn:tidegate:problem:not-paused")


async def test_a_second_pause_replaces_who_and_why(desk: OperatorDesk) -> None:
    await call(desk, "pause", **PAUSE)
    await call(desk, "pause", **PAUSE | {"by": "bob", "reason": "still down"})
    (pause,) = (await shown(desk))["pauses"]
    assert (pause["by"], pause["reason"]) == ("bob", "still down")


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        ({**PAUSE, "reason": " "}, 422, "invalid-request"),
        ({"scope": "job_type", "value": "x"}, 422, "invalid-request"),
        ({**PAUSE, "scope": "key"}, 422, "invalid-request"),
        ({**PAUSE, "value": "a\0b"}, 422, "invalid-request"),
        ({**PAUSE, "scope": "pool", "value": "slow"}, 422, "invalid-request"),
        ({**PAUSE, "scope": "tenant", "value": "nobody"}, 404, "tenant-unknown"),
        ({**PAUSE, "scope": "worker", "value": "default:w1/b1"}, 422, "invalid-request"),
    ],
)
async def test_what_cannot_be_paused_is_refused(
    desk: OperatorDesk, body: dict[str, Any], status: int, name: str
) -> None:
    answered, told = await call(desk, "pause", **body)
    assert (answered, told["type"]) == (status, f"urn:tidegate:problem:{name}")
    assert desk.tenant_records == []


@pytest.mark.parametrize(
    ("scope", "value", "named"),
    [
        ("tenant", "acme", "tenant 'acme'"),
        ("job_type", "draft_reply", "job type 'draft_reply'"),
        ("pool", "default", "pool 'default'"),
        ("source", "zendesk", "source 'zendesk'"),
    ],
)
async def test_a_job_that_waits_says_who_paused_it_when_and_why(
    desk: OperatorDesk, scope: str, value: str, named: str
) -> None:
    has(desk, make_job("job_a", event=event("zendesk")), make_job("job_r", status="running"))
    _, told = await call(desk, "pause", **PAUSE | {"scope": scope, "value": value})
    why = (await shown(desk, "/v1/jobs/job_a"))["why"]
    assert why == {
        "reason": "paused",
        "since": told["at"],
        "detail": f"{named} is paused since {told['at']} by ann: the bank is down. It starts once "
        "that is resumed",
        "caps": [],
        "remedy": {
            "method": "POST",
            "path": "/v1/limits/resume",
            "body": {"scope": scope, "value": value},
        },
    }
    assert (await shown(desk, "/v1/jobs/job_r"))["why"] is None


async def test_a_bucket_says_that_its_value_or_its_tenant_is_paused(desk: OperatorDesk) -> None:
    limits = (
        Limit("types", "job_type", "*", concurrency=2),
        Limit("tenants", "tenant", "*", concurrency=2),
        Limit("keys", "key", by="input.x", concurrency=2),
    )
    desk.topology = replace(desk.topology, limits=limits)
    marks = (LimitKey("keys", "1"), LimitKey("/source", "zendesk"))
    has(desk, make_job("job_a", limit_keys=marks))
    await call(desk, "pause", **PAUSE)
    paused = {each["name"]: each["buckets"][0]["paused"] for each in (await shown(desk))["limits"]}
    assert [name for name, told in paused.items() if told] == ["types"]
    assert paused["types"]["by"] == "ann"
    await call(desk, "resume", scope="job_type", value="draft_reply")
    await call(desk, "pause", scope="tenant", value="acme", reason="x")
    paused = {each["name"]: each["buckets"][0]["paused"] for each in (await shown(desk))["limits"]}
    assert [name for name, told in paused.items() if told] == ["tenants", "keys"]


def event(source: str) -> EventInfo:
    kind = "application/json"
    return EventInfo("evt_1", source, "t.created", None, None, 0, kind, None, None, "k", {})


async def test_a_worker_is_drained_by_its_name_in_each_partition(desk: OperatorDesk) -> None:
    has(desk, *(make_job(f"job_{n}", status="running", worker_id="default:w1/b1") for n in (1, 2)))
    drain = {"scope": "worker", "value": "default:w1", "reason": "its node is replaced"}
    assert (await call(desk, "pause", **drain))[1]["warning"] is None
    assert len(desk.tenant_records) == desk.topology.partitions
    (worker,) = (await shown(desk, "/v1/workers"))["workers"]
    assert (worker["worker"], worker["running"]) == ("default:w1", 2)
    assert worker["drained"]["reason"] == "its node is replaced"
    assert (await call(desk, "resume", scope="worker", value="default:w1"))[0] == 200
    (worker,) = (await shown(desk, "/v1/workers"))["workers"]
    assert worker["drained"] is None


async def test_a_worker_at_which_nothing_runs_is_drained_with_a_warning(desk: OperatorDesk) -> None:
    drain = {"scope": "worker", "value": "default:w9", "reason": "x"}
    assert "no job runs" in (await call(desk, "pause", **drain))[1]["warning"]
    (worker,) = (await shown(desk, "/v1/workers"))["workers"]
    assert (worker["worker"], worker["running"]) == ("default:w9", 0)
