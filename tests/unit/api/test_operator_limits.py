"""The operator counts by bucket what runs and what waits, in pages of buckets."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.operator_cluster import make_job
from support.operator_desk import OperatorDesk, client_of

from streams.api.limits import uses as limit_uses
from streams.api.limits.uses import RUNNING, WAITING
from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, project
from streams.runtime.processor import Record
from streams.serde.codec import JOB, LIMIT_GRANT
from streams.serde.records import Job, LimitGrant, LimitKey
from streams.topology.limits import Limit, Rate

TENANTS = Limit("per_tenant", "tenant", concurrency=2)
REFUNDS = Limit("refunds", "job_type", "refund", per="tenant", rate=Rate(100, 60), burst=5)
CUSTOMERS = Limit("one_a_customer", "key", by="input.customer", concurrency=1)


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


def desk_of(rows: sqlite3.Connection, *limits: Limit, jobs: tuple[Job, ...] = ()) -> OperatorDesk:
    desk = OperatorDesk(rows)
    desk.topology = replace(desk.topology, limits=limits)
    desk.project(("jobs", b"", JOB.encode(job)) for job in jobs)
    return desk


def of(customer: str, name: str, **fields: Any) -> Job:
    return make_job(name, limit_keys=(LimitKey("one_a_customer", f'"{customer}"'),), **fields)


async def limits(desk: OperatorDesk, **query: str | int) -> Any:
    async with client_of(desk) as client:
        answer = await client.get("/v1/limits", params=query)
        return await answer.json()


async def test_each_bucket_says_what_runs_what_waits_and_for_how_long(
    rows: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.api.limits.buckets_table.wall_ms", lambda: 60_000)
    found = (
        of("ann", "r1", status="running"),
        of("ann", "w1", status="pending", ready_at=50_000),
        of("ann", "w2", status="pending", ready_at=58_500),
        of("bob", "done", status="succeeded"),
        make_job("far", status="running", tenant_id="globex", type="refund"),
    )
    told = await limits(desk_of(rows, TENANTS, REFUNDS, CUSTOMERS, jobs=found))
    nothing = {"held_idle": 0, "next_token_at": None, "paused": None}
    idle = {"waiting": 0, "oldest_seconds": None, **nothing}
    acme = {"used": 1, "waiting": 2, "oldest_seconds": 10.0, **nothing}
    assert [(each["name"], each["buckets"]) for each in told["limits"]] == [
        (
            "per_tenant",
            [
                {"tenant_id": "acme", "key": "acme", **acme},
                {"tenant_id": "globex", "key": "globex", "used": 1, **idle},
            ],
        ),
        ("refunds", [{"tenant_id": "globex", "key": "refund", "used": 1, **idle}]),
        ("one_a_customer", [{"tenant_id": "acme", "key": '"ann"', **acme}]),
    ]
    assert told["next_cursor"] is None


async def test_a_limit_says_what_it_counts_by_and_where_its_cap_holds(
    rows: sqlite3.Connection,
) -> None:
    told = await limits(desk_of(rows, REFUNDS, Limit("all", "global", concurrency=9)))
    assert told["limits"] == [
        {
            "name": "refunds",
            "tenant_id": None,
            "scope": "job_type",
            "match": "refund",
            "by": None,
            "per": "tenant",
            "cap": None,
            "rate": "100/min",
            "burst": 5,
            "holds": "for each matching tenant, overall",
            "buckets": [],
        },
        {
            "name": "all",
            "tenant_id": None,
            "scope": "global",
            "match": "*",
            "by": None,
            "per": None,
            "cap": 9,
            "rate": None,
            "burst": None,
            "holds": "overall",
            "buckets": [],
        },
    ]


@pytest.mark.parametrize(
    ("query", "buckets"),
    [
        ({"name": "one_a_customer"}, ["acme ann", "acme bob", "globex ann"]),
        ({"name": "one_a_customer", "tenant_id": "acme"}, ["acme ann", "acme bob"]),
        ({"name": "one_a_customer", "key": "ann"}, ["acme ann", "globex ann"]),
        ({"key": '"bob"'}, ["acme bob"]),
    ],
)
async def test_buckets_are_found_by_name_key_and_tenant(
    rows: sqlite3.Connection, query: dict[str, str | int], buckets: list[str]
) -> None:
    jobs = (of("ann", "a"), of("bob", "b"), of("ann", "c", tenant_id="globex"))
    told = await limits(desk_of(rows, TENANTS, CUSTOMERS, jobs=jobs), **query)
    (limit,) = told["limits"]
    found = [f"{each['tenant_id']} {each['key'].strip(chr(34))}" for each in limit["buckets"]]
    assert found == buckets


async def test_pages_of_buckets_go_on_where_the_one_before_ended(rows: sqlite3.Connection) -> None:
    odd = ("", "/", "*", "a/b", "ä")
    desk = desk_of(
        rows, TENANTS, CUSTOMERS, jobs=tuple(of(each, f"j{n}") for n, each in enumerate(odd))
    )
    seen, cursor = list[tuple[str, str]](), ""
    while cursor is not None:
        page = await limits(desk, limit=2, **({"cursor": cursor} if cursor else {}))
        found = [(each["name"], b["key"]) for each in page["limits"] for b in each["buckets"]]
        assert 0 < len(found) <= 2
        seen += found
        cursor = page["next_cursor"]
    assert seen == [
        ("per_tenant", "acme"),
        *(("one_a_customer", f'"{each}"') for each in sorted(odd)),
    ]


async def test_an_unknown_parameter_is_refused(rows: sqlite3.Connection) -> None:
    told = await limits(desk_of(rows, TENANTS), nam="per_tenant")
    assert told["status"] == 422


@pytest.mark.parametrize(("sql", "index"), [(WAITING, "jobs_ready"), (RUNNING, "jobs_running")])
def test_jobs_are_counted_in_an_index_alone(rows: sqlite3.Connection, sql: str, index: str) -> None:
    names = {"tenant_id": None, "jobs": 9, "groups": 9}
    plan = " ".join(row[3] for row in rows.execute(f"EXPLAIN QUERY PLAN {sql}", names))
    assert f"USING COVERING INDEX {index}" in plan


async def test_an_answer_counts_so_many_jobs_that_waited_longest_and_says_that_there_are_more(
    rows: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = (of(f"c{n:02}", f"w{n}", status="pending", ready_at=100 - n) for n in range(10))
    running = (of(f"c{n:02}", f"r{n}", status="running", ready_at=0) for n in range(10))
    other = of("ann", "other", status="pending", tenant_id="globex", ready_at=1_000)
    desk = desk_of(rows, CUSTOMERS, jobs=(*waiting, *running, other))
    assert (await limits(desk))["complete"]
    for name in ("MOST_JOBS", "MOST_GROUPS"):
        with monkeypatch.context() as patched:
            patched.setattr(limit_uses, name, 4)
            told = await limits(desk)
            (limit,) = told["limits"]
            counted = [each["key"] for each in limit["buckets"] if each["waiting"]]
            assert counted == [f'"c{n:02}"' for n in (6, 7, 8, 9)]
            assert sum(each["used"] for each in limit["buckets"]) == 4
            assert not told["complete"]
            told = await limits(desk, tenant_id="globex")
            (limit,) = told["limits"]
            assert [each["key"] for each in limit["buckets"]] == ['"ann"']
            assert told["complete"]


OWN = {"name": "refunds", "scope": "job_type", "match": "refund", "concurrency": 3}
"""Replaces the topology's limit of that name for its tenant."""


async def put(desk: OperatorDesk, *own: dict[str, Any], **settings: Any) -> tuple[int, Any]:
    async with client_of(desk) as client:
        answer = await client.put("/v1/tenants/acme", json={"limits": list(own), **settings})
        return answer.status, await answer.json()


async def test_limits_of_a_tenant_are_listed_behind_the_topologys(rows: sqlite3.Connection) -> None:
    found = tuple(make_job(f"r{n}", type="refund", status="running") for n in range(2))
    desk = desk_of(rows, REFUNDS, jobs=(*found, make_job("g", "globex", type="refund")))
    assert (await put(desk, OWN, {"name": "mine", "scope": "tenant", "rate": "5/s"}))[0] == 200
    told = (await limits(desk))["limits"]
    assert [(each["name"], each["tenant_id"], each["cap"], each["rate"]) for each in told] == [
        ("refunds", None, None, "100/min"),
        ("refunds", "acme", 3, None),
        ("mine", "acme", None, "5/s"),
    ]
    buckets = [[(b["tenant_id"], b["used"], b["waiting"]) for b in e["buckets"]] for e in told]
    assert buckets == [[("globex", 0, 1)], [("acme", 2, 0)], [("acme", 2, 0)]]
    (own,) = (await limits(desk, name="mine"))["limits"]
    assert own["buckets"][0]["key"] == "acme"


async def test_a_job_names_its_tenants_own_limit_when_that_is_reached(
    rows: sqlite3.Connection,
) -> None:
    desk = desk_of(rows, REFUNDS, jobs=(make_job("r1", type="refund", status="running"),))
    desk.project([("jobs", b"", JOB.encode(make_job("job_a", type="refund")))])
    await put(desk, OWN | {"concurrency": 1})
    async with client_of(desk) as client:
        why = (await (await client.get("/v1/jobs/job_a")).json())["why"]
    (cap,) = why["caps"]
    assert (cap["limit"], cap["per"], cap["in_use"], cap["concurrency"]) == (
        *("refunds", "tenant"),
        *(1, 1),
    )
    assert "'refunds' lets one job of type 'refund' of its tenant run at a time" in why["detail"]


async def test_a_tenant_keeps_its_limits_in_the_form_in_which_they_were_put(
    rows: sqlite3.Connection,
) -> None:
    desk = desk_of(rows)
    given = OWN | {"rate": "100/min", "burst": 2}
    _, told = await put(desk, given)
    assert {name: told["limits"][0][name] for name in given} == given
    again = await put(desk, *told["limits"])
    assert again[1]["limits"] == told["limits"]
    assert (await put(desk))[1]["limits"] == []


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"scope": "global"}, "scope: scope global is not of one tenant: use tenant, job_type"),
        ({"scope": "tool"}, "scope: scope tool is not of one tenant"),
        ({"concurrency": None}, "the limit limits nothing; set concurrency, rate or both"),
        ({"scope": "key"}, "by: scope key counts by a value of the job"),
        ({"scope": "key", "by": "a..b"}, "by: the expression"),
        ({"by": "input.x"}, "by: by is the expression of scope key"),
        ({"burst": 3}, "burst: a burst is of a rate"),
        ({"scope": "tenant", "match": "acme"}, "match: the limit is of this tenant alone"),
        ({"scope": "tenant", "match": "*", "per": "tenant"}, "per: scope tenant counts each"),
        ({"rate": "fast"}, "a rate as 100/min"),
        ({"name": "a b"}, "name"),
        ({"concurrency": 0}, "concurrency"),
        ({"cap": 4}, "cap"),
        ({"name": "shared"}, "shared: the topology's limit of this name counts all tenants"),
    ],
)
async def test_a_limit_that_a_tenant_cannot_have_is_refused_with_the_reason(
    rows: sqlite3.Connection, wrong: dict[str, Any], named: str
) -> None:
    desk = desk_of(rows, Limit("shared", "job_type", "refund", concurrency=2))
    status, told = await put(desk, OWN | wrong)
    assert status == 422
    assert named in told["detail"]
    assert desk.tenant_records == []


async def test_two_limits_of_one_name_and_too_many_are_refused(rows: sqlite3.Connection) -> None:
    status, told = await put(desk_of(rows), OWN, OWN)
    assert status == 422
    assert "refunds: is given more than once" in told["detail"]
    status, told = await put(desk_of(rows), *(OWN | {"name": f"l{n}"} for n in range(101)))
    assert status == 422
    assert "has 101 limits: a tenant has at most 100" in told["detail"]


SHARED = Limit("drafts", "job_type", concurrency=9, rate=Rate(60, 60))


def grants(desk: OperatorDesk, *of: LimitGrant, partition: int = 0, at: int = 60_000) -> None:
    batch: dict[str, Changes] = {}
    for each in of:
        value = LIMIT_GRANT.encode(each)
        project(Record("limits.grants", partition, 0, at, b"", value), batch)
    for changes in batch.values():
        changes.write(desk.rows)


async def test_what_partitions_hold_idle_and_the_next_start_come_from_the_grants(
    rows: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.api.limits.buckets_table.wall_ms", lambda: 60_000)
    running = make_job("r1", status="running", ready_at=0)
    desk = desk_of(rows, SHARED, jobs=(running,))
    grants(desk, LimitGrant("drafts", "draft_reply", 7, 1, granted=9, returned=1, target=2))
    grants(desk, LimitGrant("drafts", "draft_reply", 7, 2, granted=9, returned=6, target=2))
    grants(desk, LimitGrant("drafts", "draft_reply", 9, 1, 2, 0, 2), partition=1)
    grants(desk, LimitGrant("drafts", "refund", 9, 1, 1, 0, 1), partition=1)
    grants(desk, LimitGrant("drafts", "draft_reply", 0, 5, 0, 0, 0, 1, wait_ms=1_500))
    (limit,) = (await limits(desk))["limits"]
    found = [(b["key"], b["used"], b["held_idle"], b["next_token_at"]) for b in limit["buckets"]]
    assert found == [
        ("draft_reply", 1, 4, "1970-01-01T00:01:01.500Z"),
        ("refund", 0, 1, None),
    ]
    grants(desk, LimitGrant("drafts", "refund", 9, 2, 1, 1, 0), partition=1)
    (limit,) = (await limits(desk))["limits"]
    assert [bucket["key"] for bucket in limit["buckets"]] == ["draft_reply"]
