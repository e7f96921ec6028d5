"""Streams against odd orders: topics at a pace of their own, late records, and what is gone."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.access_desk import Office
from support.live_desk import (
    HEADERS,
    HOUR_MS,
    TOKEN,
    Got,
    Log,
    Rows,
    line,
    opened,
    parsed,
    reset,
    serving,
    texts,
    token,
    until,
)
from support.operator_cluster import make_entry, make_job

from streams.api.live import resumption
from streams.api.live.position import TOPICS, Position, read_position
from streams.api.live.table import TABLE, newest_lines
from streams.api.refusal import Refusal
from streams.api.serving.access import Access
from streams.operator.run import _streams
from streams.process.wall_clock import wall_ms
from streams.serde.records import Workflow
from streams.settings import Settings
from streams.topology.limits import Limit

EVENTS = "/v1/jobs/job_a/events"
OF_WORKFLOW = "/v1/workflows/job_a/events"
RUNNING = make_job(status="running", attempts=1, epoch=1, run_id="run_1")
DONE = replace(RUNNING, status="succeeded", result='{"sent":1}', updated_at=1_700_000_009_000)
ROOT = replace(RUNNING, workflow_id="job_a")
CHILD = replace(RUNNING, job_id="job_b", scope="job_b.1", workflow_id="job_a", depth=1)
FLOW = Workflow("job_a", "acme", "job_a", "draft_reply", "running", {"running": 1}, 1)
BOTH = replace(FLOW, jobs={"running": 2})

Client = Any


@asynccontextmanager
async def desk(tmp_path: Path) -> AsyncIterator[tuple[Rows, Client]]:
    rows = Rows(tmp_path / "a.sqlite")
    async with serving(rows) as client:
        yield rows, client


async def whole(client: Client, path: str = EVENTS, last: str | None = None) -> list[Got]:
    async with await opened(client, path, last) as answer:
        assert answer.status == 200, await answer.text()
        return parsed(await answer.read())


async def looked(rows: Rows) -> None:
    """Wait until a reader reads, or waits until the read model is as new as the topics."""
    before, asked = rows.reads, len(rows.asked)
    async with asyncio.timeout(10):
        while rows.reads == before and len(rows.asked) == asked:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "late",
    [
        token("job_a", 0, "again"),
        token("job_a", 1, "from a thread"),
        line("job_a", 0, "from a thread"),
    ],
    ids=["a token twice", "a token", "a line"],
)
async def test_what_is_said_after_the_end_does_not_open_the_stream_again(
    tmp_path: Path, late: Any
) -> None:
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING, token("job_a", 0, "Hi"), DONE))
        last = (await whole(client))[-1].id
        rows.fold(*log.append(late, make_entry(RUNNING, "email:send/reply")))
        assert (await opened(client, EVENTS, last)).status == 204


async def test_a_step_that_a_run_does_again_drops_its_text_at_any_resume(tmp_path: Path) -> None:
    log = Log()
    said = [
        token("job_a", 0, "half"),
        *(replace(reset("job_a", epoch=1), n=1),) * 2,
        token("job_a", 1, "the "),
        replace(reset("job_a", epoch=1), n=1),
        token("job_a", 2, "whole"),
    ]
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING, *said, DONE))
        got = await whole(client)
        assert texts(got) == {"": "the whole"}
        for number, each in enumerate(got[:-1]):
            rest = await whole(client, last=each.id)
            assert texts(got[: number + 1] + rest) == {"": "the whole"}


async def test_a_value_as_deep_as_a_handler_may_give_is_told(tmp_path: Path) -> None:
    log, deep = Log(), "[" * 254 + "]" * 254
    fields = orjson.loads("[" * 252 + "]" * 252)
    said = {"level": "info", "message": "deep", "fields": {"value": fields}}
    logged = replace(line("job_a", 0, "deep"), text=orjson.dumps(said).decode())
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING, logged, replace(DONE, result=deep)))
        got = await whole(client)
        assert [each.event for each in got] == ["log", "status", "end"]
        assert got[0].data["fields"] == {"value": fields}
        assert got[-1].data["result"] == orjson.loads(deep)


async def test_a_stream_of_one_tenant_counts_no_job_of_another(tmp_path: Path) -> None:
    """It tells of a job what a look at it tells: a cap that others fill says how many they have."""
    log, rows, office = Log(), Rows(tmp_path / "a.sqlite"), Office(TOKEN)
    rows.topology = replace(rows.topology, limits=(Limit("drafts", "job_type", "*", 2),))
    rows.access = Access(office.access, rows.tickets, open_schemas=False)
    limited = office.token("viewer", frozenset({"acme"}))
    theirs = [replace(RUNNING, job_id=f"job_{n}", tenant_id="globex") for n in "xyz"]
    waiting = replace(RUNNING, status="pending", attempts=0, epoch=0, run_id=None)
    told = []
    async with serving(rows) as client:
        rows.fold(*log.append(waiting, *theirs))
        for mine in (limited, TOKEN):
            headers = {"Authorization": f"Bearer {mine}"}
            async with client.get("/v1/jobs/job_a", headers=headers) as answer:
                shown = (await answer.json())["why"]
            async with client.get(EVENTS, headers=headers) as answer:
                status = (await until(answer, "status"))[0].data["why"]
            assert status == shown
            told.append([cap["in_use"] for cap in status["caps"]])
    assert told == [[], [3]]


async def test_a_ticket_of_one_tenant_opens_no_workflow_of_another(tmp_path: Path) -> None:
    log = Log()
    theirs = replace(FLOW, tenant_id="globex", root_job_id="job_z")
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(ROOT, FLOW))

        async def ticket(status: int = 201, **body: Any) -> str:
            made = await client.post("/v1/stream-tickets", json=body, headers=HEADERS)
            assert made.status == status
            return str((await made.json()).get("ticket"))

        async def status(ticket: str, tenant_id: str | None = None) -> int:
            named = {} if tenant_id is None else {"tenant_id": tenant_id}
            async with client.get(OF_WORKFLOW, params={"ticket": ticket, **named}) as answer:
                return int(answer.status)

        assert await status(await ticket(workflow_id="job_a")) == 200
        rows.fold(*log.append(theirs))
        assert await status(await ticket(workflow_id="job_a"), "globex") == 401
        ours = await ticket(workflow_id="job_a", tenant_id="acme")
        assert [await status(ours, name) for name in ("globex", None, "acme", "acme")] == [
            *(401, 401, 200, 401)
        ]
        await ticket(jobs=["job_a"], tenant_id="acme", status=422)


async def test_a_workflow_finds_a_job_whose_row_comes_behind_the_workflow_s(
    tmp_path: Path,
) -> None:
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(ROOT, FLOW))
        async with await opened(client, OF_WORKFLOW) as answer:
            await until(answer, "status", 2)
            child, flow = log.append(CHILD, BOTH)
            rows.settled.clear()
            rows.fold(flow)
            await looked(rows)
            rows.fold(child)
            rows.settled.set()
            async with asyncio.timeout(10):
                got = await until(answer, "status", 2)
        assert {each.data.get("job_id") for each in got} == {None, "job_b"}


async def test_a_workflow_tells_what_a_job_said_whose_row_comes_late(tmp_path: Path) -> None:
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(ROOT, FLOW))
        async with await opened(client, OF_WORKFLOW) as answer:
            await until(answer, "status", 2)
            child, flow = log.append(CHILD, BOTH)
            rows.settled.clear()
            rows.fold(*log.append(token("job_b", 0, "child"), token("job_a", 0, "root")))
            await looked(rows)
            rows.fold(child, flow)
            rows.settled.set()
            async with asyncio.timeout(10):
                got = await until(answer, "token", 2)
        told = [each.data["text"] for each in got if each.event == "token"]
        assert told == ["child", "root"]


async def test_an_id_before_old_tokens_is_no_good_once_they_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, now = Log(), wall_ms()
    old = now - 11 * HOUR_MS // 2
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING))
        rows.fold(*log.append(*(token("job_a", n, f"{n} ") for n in range(4)), at=old))
        async with await opened(client, EVENTS) as answer:
            cut = (await until(answer, "token"))[-1].id
        monkeypatch.setattr(resumption, "wall_ms", lambda: now + HOUR_MS)
        rows.writer.execute("DELETE FROM live WHERE at < ?", (now - 5 * HOUR_MS,))
        rows.fold(*log.append(token("job_a", 4, "4 "), DONE))
        got = await whole(client, last=cut)
        assert [each.event for each in got] == ["gap", "token", "status", "end"]
        assert texts(got) == {"": "4 "}


async def test_an_effect_that_two_jobs_of_a_stream_share_is_told_of_both_after_any_cut(
    tmp_path: Path,
) -> None:
    log, path = Log(), "/v1/stream?jobs=job_a,job_b"
    other = replace(RUNNING, job_id="job_b", scope="job_b.1")
    notes = [
        make_entry(each, "@tenant/email:send/x", status="shared", result=None)
        for each in (RUNNING, other)
    ]
    shared = replace(notes[0], scope="@tenant", action="email:send/x", status="done")
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING, other, *notes, shared))
        async with await opened(client, path) as answer:
            got = await until(answer, "effect", 2)
        first = next(each for each in got if each.event == "effect")
        async with await opened(client, path, first.id) as answer:
            async with asyncio.timeout(10):
                again = await until(answer, "effect")
                while {e.data.get("of_job") for e in again} < {"job_a", "job_b"}:
                    again += await until(answer, "effect")


def test_an_id_of_a_hundred_jobs_in_as_many_large_partitions_is_taken_again() -> None:
    offsets = {n: [2**40] * len(TOPICS) for n in range(100)}
    given = Position(b"12345678", 500_000, set(range(99)), offsets)
    assert read_position(str(given)) == given


def test_the_newest_lines_of_a_job_are_found_among_many_tokens(tmp_path: Path) -> None:
    count = 20_000
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript("".join((TABLE.ddl, *TABLE.index_ddl.values())))
    kinds: Iterator[str] = ("log" if n == 0 else "token" for n in range(count))
    connection.executemany(
        TABLE.upsert,
        (("job_a", n, "acme", 1, kind, "run_1", 1, "", n, "{}") for n, kind in enumerate(kinds)),
    )
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    connection.set_progress_handler(step, 100)
    assert [each["n"] for each in newest_lines(connection, RUNNING)] == [0]
    assert steps < 10


async def test_a_read_that_began_while_rows_were_missing_tells_nothing(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "a.sqlite")

    class State:
        notifier, topology, read_barrier = rows.notifier, rows.topology, rows.read_barrier
        is_ready = False

        @property
        def database(self) -> Any:
            return self

        def read(self, look: Any, tenants: Any) -> Any:
            found = rows.database.read(look, tenants)
            self.is_ready = True
            return found

        def ready(self) -> bool:
            return self.is_ready

    state: Any = State()
    hub = _streams(Settings(), rows.topology, state, rows.tickets).hub
    with pytest.raises(Refusal):
        await hub.reads.read(lambda _: "no rows")
    assert await hub.reads.read(lambda _: "rows") == "rows"
    await hub.reads.close()
    rows.writer.close()
    rows.database.close()
