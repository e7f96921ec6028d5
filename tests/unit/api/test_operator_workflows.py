"""The calls on workflows, over the jobs of a bench."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from support.job_rows import fold
from support.office import office
from support.operator_cluster import make_job

from streams import App, Context, PermanentError
from streams.api.jobs import places
from streams.api.read_model.database import Database
from streams.api.rows.paging import PageQuery
from streams.runtime.processor import Record
from streams.serde.codec import JOB, WORKFLOW
from streams.serde.keys import workflow_key
from streams.serde.records import Job, Parent, Workflow
from streams.testing import Bench
from streams.testing import Job as BenchJob
from streams.topology.load import load

Client = TestClient[Any, Any]
HOUR = 3_600


async def tree(ctx: Context) -> Any:
    refund = await ctx.enqueue("refund", {"order": 7}, key="order 7")
    await ctx.sleep(1)
    await ctx.step("count", int, 3)
    jobs = [ctx.child("leaf", n) for n in ctx.input["leaves"]]
    await ctx.gather(jobs, key="all", on_failure="collect", limit=ctx.input.get("limit", 50))
    return await refund


async def leaf(ctx: Context) -> Any:
    if ctx.input < 0:
        raise PermanentError("below zero")
    if ctx.input > 99:
        await ctx.sleep(ctx.input)
    return ctx.input


async def refund(ctx: Context) -> Any:
    await ctx.enqueue("leaf", 1)
    decision = await ctx.approval("refund", prompt="Refund order 7?", timeout=HOUR)
    return decision.approved


async def grand(ctx: Context) -> Any:
    return await ctx.enqueue("middle", wait=True)


async def middle(ctx: Context) -> Any:
    """A job that fails once, after a job of its own has succeeded."""
    await ctx.enqueue("leaf", 1, wait=True)
    failures.append(ctx.run_id)
    if len(failures) == 1:
        raise PermanentError("not yet")


failures: list[str] = []


def app() -> App:
    made = App("trees")
    failures.clear()
    for handler in (tree, leaf, refund, grand, middle):
        made.job(handler.__name__)(handler)
    return made


class Pipeline:
    """What the office needs of a desk: the records of a bench, and some more."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.driver, self.topology = bench, self, load()
        self.more: dict[str, list[Record]] = {}

    def output(self, topic: str) -> list[Record]:
        return [*self.bench._behind.pipeline.output(topic), *self.more.get(topic, [])]

    def add(self, *values: Job | Workflow) -> None:
        for value in values:
            if isinstance(value, Job):
                topic, written = "jobs", JOB.encode(value)
            else:
                topic, written = "workflows", WORKFLOW.encode(value)
            self.more.setdefault(topic, []).append(Record(topic, 0, 0, 0, b"", written))


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app()) as bench:
        yield bench


@pytest.fixture
def pipeline(bench: Bench) -> Pipeline:
    return Pipeline(bench)


@pytest.fixture
async def client(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Client]:
    async with office(pipeline, tmp_path, monkeypatch) as client:  # type: ignore[arg-type]
        yield client


def begun(bench: Bench, leaves: list[int], **given: int) -> BenchJob:
    """A tree whose root waits for its leaves, or for the refund that waits for a person."""
    job = bench.submit("tree", {"leaves": leaves, **given}).run()
    bench.advance(2)
    return job.run()


async def get(client: Client, path: str, **query: Any) -> Any:
    answer = await client.get(path, params=query)
    found = await answer.json()
    assert answer.status == 200, found
    return found


async def refused(client: Client, path: str) -> tuple[int, str]:
    answer = await client.get(path)
    return answer.status, (await answer.json())["detail"]


async def test_a_workflow_is_shown_with_its_root_and_the_numbers_of_its_jobs(
    bench: Bench, client: Client
) -> None:
    job = begun(bench, [1, 2, 100, -1])
    found = await get(client, f"/v1/workflows/{job.id}")
    assert (found["workflow_id"], found["status"]) == (job.id, "running")
    assert found["jobs"] == {"waiting": 3, "succeeded": 3, "failed": 1}
    assert found["error"]["error"] == "PermanentError: below zero"
    assert found["ended_at"] is None
    root = found["root"]
    assert (root["job_id"], root["type"], root["status"]) == (job.id, "tree", "waiting")
    children = root["children"]
    assert children["total"] == 5
    assert children["by_status"] == {"failed": 1, "succeeded": 2, "waiting": 2}
    calls = [(each["call"], each["key"], each["children"]["total"]) for each in children["jobs"]]
    assert calls == [
        ("refund[order 7]", "order 7", 1),
        ("gather[all]/0", None, 0),
        ("gather[all]/1", None, 0),
        ("gather[all]/2", None, 0),
        ("gather[all]/3", None, 0),
    ]
    assert [step["name"] for step in root["steps"]] == ["sleep", "count"]
    assert [wait["kind"] for wait in root["waits"]] == ["gather"]
    assert found["error"]["job_id"] == children["jobs"][4]["job_id"]


async def test_it_ends_as_its_root_does(bench: Bench, client: Client) -> None:
    job = begun(bench, [1])
    bench.advance(HOUR + 1)
    bench.advance(1)
    job.run()
    found = await get(client, f"/v1/workflows/{job.id}")
    assert (found["status"], found["outcome"], found["root"]["status"]) == (job.status,) * 3
    assert found["ended_at"] == found["root"]["ended_at"]


async def test_what_its_jobs_ask_of_people_is_named(bench: Bench, client: Client) -> None:
    job = begun(bench, [100])
    found = await get(client, f"/v1/workflows/{job.id}")
    (asked,) = found["approvals"]["pending"]
    assert (found["approvals"]["jobs"], asked["key"], asked["type"]) == (1, "refund", "refund")
    child = found["root"]["children"]["jobs"][0]
    assert asked["job_id"] == child["job_id"]
    assert asked["approval_id"] in child["waits_for"]
    node = await get(client, f"/v1/workflows/{job.id}/jobs/{child['job_id']}")
    assert [each["approval_id"] for each in node["approvals"]] == [asked["approval_id"]]


async def test_a_deeper_job_is_shown_as_the_root_is_with_the_jobs_above_it(
    bench: Bench, client: Client
) -> None:
    job = begun(bench, [])
    child = job.children[0]
    node = await get(client, f"/v1/workflows/{job.id}/jobs/{child.id}")
    assert (node["workflow_id"], node["job_id"], node["depth"]) == (job.id, child.id, 1)
    assert [each["job_id"] for each in node["above"]] == [job.id]
    (leaf,) = node["children"]["jobs"]
    node = await get(client, f"/v1/workflows/{job.id}/jobs/{leaf['job_id']}")
    assert [each["job_id"] for each in node["above"]] == [job.id, child.id]
    assert node["children"] == {"total": 0, "by_status": {}, "jobs": [], "cursor": None}


async def test_the_children_come_in_pages_in_the_order_of_the_list(
    bench: Bench, client: Client
) -> None:
    job = begun(bench, list(range(25)), limit=3)
    seen, cursor = list[str](), dict[str, str]()
    while True:
        found = await get(client, f"/v1/workflows/{job.id}", limit=7, **cursor)
        children = found["root"]["children"]
        assert children["total"] == 26
        assert len(children["jobs"]) <= 7
        seen += [each["call"] for each in children["jobs"]]
        if children["cursor"] is None:
            break
        cursor = {"cursor": children["cursor"]}
    assert seen == ["refund[order 7]", *(f"gather[all]/{n}" for n in range(25))]


async def test_a_page_can_be_of_one_state_alone(bench: Bench, client: Client) -> None:
    job = begun(bench, [1, -1, 2, -2])
    found = await get(client, f"/v1/workflows/{job.id}", status="failed", limit=1)
    children = found["root"]["children"]
    assert [each["call"] for each in children["jobs"]] == ["gather[all]/1"]
    query = {"status": "failed", "limit": 1, "cursor": children["cursor"]}
    found = await get(client, f"/v1/workflows/{job.id}", **query)
    children = found["root"]["children"]
    assert [each["call"] for each in children["jobs"]] == ["gather[all]/3"]
    assert children["cursor"] is None


async def test_a_plain_job_is_a_workflow_of_its_own(bench: Bench, client: Client) -> None:
    good, bad = bench.submit("leaf", 1).run(), bench.submit("leaf", -1, key="b").run()
    found = await get(client, f"/v1/workflows/{good.id}")
    assert (found["status"], found["jobs"], found["error"]) == ("succeeded", {"succeeded": 1}, None)
    assert found["root"]["children"]["total"] == 0
    assert [each["job_id"] for each in found["roots"]["jobs"]] == [good.id]
    for status, expected in ((None, [good.id]), ("succeeded", [good.id]), ("failed", [])):
        query = {} if status is None else {"status": status}
        page = await get(client, f"/v1/workflows/{good.id}/roots", **query)
        assert [each["job_id"] for each in page["roots"]] == expected
    found = await get(client, f"/v1/workflows/{bad.id}")
    assert (found["outcome"], found["error"]["job_id"]) == ("failed", bad.id)


async def test_the_id_of_any_job_leads_to_its_workflow(bench: Bench, client: Client) -> None:
    job = begun(bench, [])
    found = await get(client, f"/v1/workflows/{job.children[0].id}")
    assert (found["workflow_id"], found["root"]["job_id"]) == (job.id, job.id)


def workflow(tenant_id: str, id_: str = "w", **fields: Any) -> Workflow:
    given = {"status": "running", "jobs": {"running": 3}, "created_at": 1, **fields}
    return Workflow(id_, tenant_id, "job_0", "t", **given)


async def test_all_roots_of_a_given_id_are_listed_and_the_first_is_shown(
    pipeline: Pipeline, client: Client
) -> None:
    pipeline.add(workflow("acme"))
    pipeline.add(*(make_job(f"job_{n}", workflow_id="w", created_at=n) for n in range(3)))
    child: dict[str, Any] = {"workflow_id": "w", "depth": 1}
    pipeline.add(make_job("job_c", parent=Parent("job_0", 1, "leaf"), **child))
    pipeline.add(make_job("job_replaced", **child))
    found = await get(client, "/v1/workflows/w", limit=2)
    assert found["root"]["job_id"] == "job_0"
    assert (found["roots"]["total"], len(found["roots"]["jobs"])) == (3, 2)
    page = await get(client, "/v1/workflows/w/roots", cursor=found["roots"]["cursor"])
    assert ([each["job_id"] for each in page["roots"]], page["next_cursor"]) == (["job_2"], None)


async def test_the_replay_of_a_child_is_no_root_and_named_beside_that(
    bench: Bench, client: Client
) -> None:
    job = begun(bench, [-1, 100])
    failed = job.children[1]
    again = failed.replay(note="once more").run()
    found = await get(client, f"/v1/workflows/{job.id}", status="failed")
    (shown,) = found["root"]["children"]["jobs"]
    assert (shown["job_id"], shown["replayed_as"]) == (failed.id, again.id)
    assert [each["job_id"] for each in found["roots"]["jobs"]] == [job.id]


async def test_an_id_that_two_tenants_gave_needs_the_tenant(
    pipeline: Pipeline, client: Client
) -> None:
    pipeline.add(workflow("acme"), workflow("globex", status="failed"))
    pipeline.add(make_job("job_0", workflow_id="w"))
    status, detail = await refused(client, "/v1/workflows/w")
    assert (status, "acme, globex" in detail) == (409, True)
    found = await get(client, "/v1/workflows/w", tenant_id="acme")
    assert (found["tenant_id"], found["root"]["job_id"]) == ("acme", "job_0")
    found = await get(client, "/v1/workflows/w", tenant_id="globex")
    assert (found["root"], found["roots"]["total"]) == (None, 0)
    status, _ = await refused(client, "/v1/workflows/job_0?tenant_id=globex")
    assert status == 404


async def test_an_id_that_lived_twice_leads_to_the_newest_life_and_names_the_other(
    pipeline: Pipeline, client: Client
) -> None:
    for id_, status in (("job_x", "succeeded"), ("job_x.2", "running"), ("job_xy", "running")):
        pipeline.add(replace(workflow("acme", id_, status=status), root_job_id="job_x"))
    pipeline.add(make_job("job_x", workflow_id="job_x.2", incarnation=2))
    parent = Parent("job_x", 1, "leaf")
    pipeline.add(make_job("job_left", parent=parent, depth=1, workflow_id="job_x"))
    newest = await get(client, "/v1/workflows/job_x")
    assert (newest["workflow_id"], newest["status"]) == ("job_x.2", "running")
    assert (newest["root"]["job_id"], newest["other_lives"]) == ("job_x", ["job_x.1"])
    assert await get(client, "/v1/workflows/job_x.2") == newest
    first = await get(client, "/v1/workflows/job_x.1")
    assert (first["workflow_id"], first["status"]) == ("job_x", "succeeded")
    assert (first["root"], first["other_lives"]) == (None, ["job_x.2"])
    below = await get(client, "/v1/workflows/job_x.1/jobs/job_left")
    assert below["workflow_id"] == "job_x"
    assert (await refused(client, "/v1/workflows/job_x.3"))[0] == 404
    assert (await refused(client, "/v1/workflows/job_x.1?tenant_id=globex"))[0] == 404


@pytest.mark.parametrize("id_", ["job_x", "job_x.3"])
async def test_the_newest_life_is_shown_that_has_asked_for_nothing_yet(
    pipeline: Pipeline, client: Client, id_: str
) -> None:
    pipeline.add(replace(workflow("acme", "job_x", status="succeeded"), root_job_id="job_x"))
    pipeline.add(make_job("job_x", incarnation=4, continuations=1))
    found = await get(client, f"/v1/workflows/{id_}")
    assert (found["workflow_id"], found["other_lives"]) == ("job_x.3", ["job_x.1"])
    assert (found["root"]["job_id"], found["roots"]["total"]) == ("job_x", 1)
    first = await get(client, "/v1/workflows/job_x.1")
    assert (first["workflow_id"], first["root"]) == ("job_x", None)
    assert first["other_lives"] == ["job_x.3"]


async def test_what_is_not_in_a_workflow_is_not_shown_there(
    pipeline: Pipeline, client: Client
) -> None:
    pipeline.add(workflow("acme"), make_job("job_0", workflow_id="w"), make_job("job_x", "globex"))
    status, detail = await refused(client, "/v1/workflows/w/jobs/job_x")
    assert (status, "not in workflow w" in detail) == (404, True)
    assert (await refused(client, "/v1/workflows/none"))[0] == 404
    assert (await refused(client, "/v1/workflows/w?job_id=job_0"))[0] == 422


async def test_workflows_are_listed_newest_first_by_tenant_and_status(
    pipeline: Pipeline, client: Client
) -> None:
    pipeline.add(workflow("acme", "a"), workflow("acme", "b", status="failed", created_at=2))
    pipeline.add(workflow("globex", "c", created_at=3))
    found = await get(client, "/v1/workflows")
    assert [each["workflow_id"] for each in found["workflows"]] == ["c", "b", "a"]
    found = await get(client, "/v1/workflows", tenant_id="acme", status="running")
    assert [each["workflow_id"] for each in found["workflows"]] == ["a"]
    assert found["workflows"][0]["root"] == {"job_id": "job_0", "type": "t"}
    assert (await refused(client, "/v1/workflows?status=waiting"))[0] == 422


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "rows.sqlite").open_writer()
    yield opened
    opened.close()


def test_a_level_is_counted_and_paged_by_an_index_alone(connection: sqlite3.Connection) -> None:
    parent = make_job("job_p", workflow_id="job_p")
    level, statements = places.children(parent), list[str]()
    connection.set_trace_callback(statements.append)
    places.by_status(connection, level)
    places.number(connection, level)
    places.in_gather(connection, parent, "gather[all]")
    places.page(connection, level, PageQuery(5))
    places.page(connection, level, PageQuery(5, None, {"status": "failed"}))
    connection.set_trace_callback(None)
    for statement in statements:
        (plan,) = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        assert "(tenant_id=? AND above=?" in plan[3], plan[3]
        assert ("COVERING INDEX" in plan[3]) == ("count(*)" in statement), plan[3]


def test_a_job_whose_id_lives_again_has_the_children_of_its_own_workflow_alone(
    connection: sqlite3.Connection,
) -> None:
    def child(n: int, incarnation: int, workflow_id: str) -> Job:
        parent = Parent("job_p", incarnation, f"leaf#{n}")
        return make_job(f"job_{n}", parent=parent, depth=1, workflow_id=workflow_id)

    first, second = "job_p", "job_p.2"
    fold(connection, child(1, 1, first), child(2, 2, second), child(3, 3, second))
    for workflow_id, expected in ((None, []), (second, ["job_2", "job_3"])):
        twin = make_job("job_p", incarnation=3, workflow_id=workflow_id)
        found, _ = places.page(connection, places.children(twin), PageQuery(9))
        assert [job.job_id for job in found] == expected


async def test_what_a_job_had_asked_for_stays_below_it_when_it_begins_again(
    bench: Bench, client: Client
) -> None:
    job = bench.submit("grand").run()
    (middle,) = job.children
    assert (job.status, middle.status, len(middle.children)) == ("failed", "failed", 1)
    job.replay(note="mended").run()
    node = await get(client, f"/v1/workflows/{job.id}/jobs/{middle.id}")
    assert (node["status"], node["parent"]["incarnation"]) == ("succeeded", 1)
    assert [each["type"] for each in node["children"]["jobs"]] == ["leaf"]


def test_the_key_of_a_workflow_names_its_row() -> None:
    from streams.api.workflows.table import TABLE

    record = Record("workflows", 0, 0, 0, workflow_key("acme", "w"), None)
    assert TABLE.row_key(record) == ("acme", "w")
