"""A page of a stream is small, however much its jobs did, and nothing is lost between pages."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from support.live_desk import (
    HEADERS,
    Log,
    Rows,
    StepOf,
    opened,
    parsed,
    serving,
    token,
    until,
)
from support.operator_cluster import make_entry, make_job

from streams.api.live import sender, subject
from streams.api.live.frames import Frame
from streams.api.live.page import Page
from streams.api.live.position import Position
from streams.api.live.reading import Reading
from streams.api.live.subject import Subject, of_jobs, of_workflow
from streams.api.rows.json_values import json_bytes
from streams.serde.records import Job, StepResult, Workflow

EVENTS = "/v1/jobs/job_a/events"
OF_WORKFLOW = "/v1/workflows/job_a/events"
RUNNING = make_job(status="running", attempts=1, epoch=1, run_id="run_1")
DONE = replace(RUNNING, status="succeeded", result='{"sent":1}', updated_at=1_700_000_009_000)
FLOW = Workflow("job_000", "acme", "job_000", "draft_reply", "running", {"running": 300}, 300)
MOST_BYTES = 400_000


def members(count: int) -> list[Job]:
    return [
        replace(RUNNING, job_id=f"job_{n:03}", scope=f"job_{n:03}.1", workflow_id="job_000")
        for n in range(count)
    ]


def pages(rows: Rows, about: Subject) -> list[Page]:
    """All pages of a new reader, each read once those before it were sent."""
    reading = Reading(about, Position(about.digest), rows.topology)
    found, changed = list[Page](), reading.everything
    while changed:
        page = rows.database.read(partial(reading.page, changed=changed))
        for frame in page.frames:
            reading.position.see(frame)
        found.append(page)
        changed = page.again | (reading.unheard if len(found) == 1 else set())
        assert len(found) < 1_000
    return found


def size(frames: Sequence[Frame]) -> int:
    return sum(len(json_bytes(frame.data)) for frame in frames)


@asynccontextmanager
async def desk(tmp_path: Path) -> AsyncIterator[tuple[Rows, Any]]:
    rows = Rows(tmp_path / "a.sqlite")
    async with serving(rows) as client:
        yield rows, client


@pytest.mark.parametrize("is_in_turn", [True, False], ids=["one after the other", "all at once"])
async def test_what_many_jobs_said_comes_in_small_pages_and_in_order(
    tmp_path: Path, is_in_turn: bool
) -> None:
    log, rows, jobs = Log(), Rows(tmp_path / "a.sqlite"), members(300)
    said = [token(job.job_id, n, "x" * 200) for n in range(60) for job in jobs]
    if is_in_turn:
        said.sort(key=lambda each: each.job_id)
    with closing(rows.database), closing(rows.writer):
        rows.fold(*log.append(*jobs, FLOW, *said))
        found = pages(rows, of_workflow(FLOW))
    assert max(len(page.frames) for page in found) < 1_000
    assert max(size(page.frames) for page in found) < MOST_BYTES
    told = [f.data for page in found for f in page.frames if f.event == "token" and f.data]
    assert [(each["job_id"], each["n"]) for each in told] == [(s.job_id, s.n) for s in said]


async def test_what_many_jobs_did_comes_in_small_pages_and_in_order(tmp_path: Path) -> None:
    log, rows, jobs = Log(), Rows(tmp_path / "a.sqlite"), members(100)
    value = '"' + "v" * 50_000 + '"'
    done = [
        StepOf(job.job_id, StepResult(f"s{n}", "step", n, value=value))
        for job in jobs
        for n in (0, 1)
    ]
    with closing(rows.database), closing(rows.writer):
        rows.fold(*log.append(*jobs, *done))
        found = pages(rows, of_jobs([job.job_id for job in jobs]))
    assert max(size(page.frames) for page in found) < MOST_BYTES
    told = [f.data for page in found for f in page.frames if f.event == "step" and f.data]
    assert [(each["job_id"], each["name"]) for each in told] == [
        (each.job_id, each.step.id) for each in done
    ]


async def test_all_text_of_a_step_comes_before_its_value(tmp_path: Path) -> None:
    log, rows, jobs = Log(), Rows(tmp_path / "a.sqlite"), members(2)
    said = [token(each.job_id, n, "x", step="draft") for n in range(700) for each in jobs]
    done = [StepOf(each.job_id, StepResult("draft", "step", 0, value='"x"')) for each in jobs]
    with closing(rows.database), closing(rows.writer):
        rows.fold(*log.append(*jobs, *said, *done))
        found = pages(rows, of_jobs([each.job_id for each in jobs]))
    told = [f.event for page in found for f in page.frames if f.event in ("token", "step")]
    assert told == ["token"] * 1_400 + ["step"] * 2


async def test_many_large_jobs_come_in_small_pages(tmp_path: Path) -> None:
    log, rows = Log(), Rows(tmp_path / "a.sqlite")
    jobs = [replace(job, input='"' + "v" * 100_000 + '"') for job in members(50)]
    with closing(rows.database), closing(rows.writer):
        rows.fold(*log.append(*jobs))
        found = pages(rows, of_jobs([job.job_id for job in jobs]))
    assert max(size(page.frames) for page in found) < MOST_BYTES
    told = [f.data["job_id"] for page in found for f in page.frames if f.data]
    assert told == [job.job_id for job in jobs]


async def test_a_page_of_a_job_with_thousands_of_effects_has_few_rows(tmp_path: Path) -> None:
    """All readers are read one after the other: a long look for one holds up every other."""
    log, rows, about = Log(), Rows(tmp_path / "a.sqlite"), of_jobs(["job_a"])
    reading, told = Reading(about, Position(about.digest), rows.topology), list[str]()
    effects = [make_entry(RUNNING, f"email:send/{n:04}") for n in range(2_000)]
    fetched = list[Any]()

    def noted(_: sqlite3.Cursor, row: Any) -> Any:
        fetched.append(row)
        return row

    def look(changed: set[Any], connection: sqlite3.Connection) -> Page:
        connection.row_factory = noted
        try:
            return reading.page(connection, changed)
        finally:
            connection.row_factory = None

    with closing(rows.database), closing(rows.writer):
        rows.fold(*log.append(RUNNING))
        rows.database.read(partial(look, reading.everything))
        rows.fold(*log.append(*effects))
        changed = {("job_a", "effects")}
        while changed:
            fetched.clear()
            page = rows.database.read(partial(look, changed))
            assert len(fetched) < 300
            for frame in page.frames:
                reading.position.see(frame)
                told.append(frame.data["action"] if frame.data else "")
            changed = page.again
    assert told == [effect.action for effect in effects]


def jobs_known_to(reader: object) -> set[str]:
    """The ids of all jobs to which a reader refers by now."""
    found, seen, waiting = set[str](), set[int](), [reader]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | ModuleType | FunctionType):
            continue
        seen.add(id(each))
        if isinstance(each, str) and each.startswith("job_"):
            found.add(each)
        waiting += gc.get_referents(each)
    return found


async def test_a_reader_of_an_endless_workflow_knows_the_jobs_alone_that_it_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "MOST_MEMBERS", 5)
    log, rows, told = Log(), Rows(tmp_path / "a.sqlite"), list[str]()
    about = of_workflow(replace(FLOW, workflow_id="orders", root_job_id="job_000"))
    reading = Reading(about, Position(about.digest), rows.topology)
    with closing(rows.database), closing(rows.writer):
        for job in members(100):
            job_id, text = job.job_id, f"of {job.job_id}"
            one = replace(job, workflow_id="orders")
            rows.fold(*log.append(one, token(job_id, 0, text[:4]), token(job_id, 1, text[4:])))
            changed = {("", "workflows"), (job_id, "jobs"), (job_id, "live")}
            page = rows.database.read(partial(reading.page, changed=changed))
            for frame in page.frames:
                reading.position.see(frame)
                told += [frame.data["text"]] if frame.event == "token" and frame.data else []
        assert len(jobs_known_to(reading)) < 20
    assert "".join(told) == "".join(f"of {job.job_id}" for job in members(100))


async def test_a_workflow_of_one_job_that_lives_again_is_told_on(tmp_path: Path) -> None:
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(replace(DONE, status="dead")))
        async with await opened(client, OF_WORKFLOW) as answer:
            last = parsed(await answer.read())[-1]
        assert (last.event, (await opened(client, OF_WORKFLOW, last.id)).status) == ("end", 204)
        rows.fold(*log.append(replace(RUNNING, epoch=2)))
        async with await opened(client, OF_WORKFLOW, last.id) as answer:
            assert (await until(answer, "status"))[0].data["status"] == "running"
            rows.fold(*log.append(replace(DONE, epoch=2)))
            got = await until(answer, "end")
        assert got[-1].data["status"] == "succeeded"
        assert (await opened(client, OF_WORKFLOW, got[-1].id)).status == 204


async def test_a_reader_finds_its_job_on_a_replica_that_is_behind(tmp_path: Path) -> None:
    log = Log()
    a, b = Rows(tmp_path / "a.sqlite"), Rows(tmp_path / "b.sqlite")
    async with serving(a) as at_a, serving(b) as at_b:
        records = log.append(RUNNING, token("job_a", 0, "Hi"))
        a.fold(*records)
        async with await opened(at_a, EVENTS) as answer:
            last = (await until(answer, "token"))[-1].id
        b.settled.clear()
        resuming = asyncio.create_task(opened(at_b, EVENTS, last))
        while not b.asked and not resuming.done():
            await asyncio.sleep(0.001)
        b.fold(*records)
        b.settled.set()
        async with await resuming as answer:
            assert answer.status == 200
            b.fold(*log.append(token("job_a", 1, "!")))
            assert [each.data["n"] for each in await until(answer, "token")] == [1]


async def test_a_reader_with_an_id_of_a_job_that_is_gone_gets_404(tmp_path: Path) -> None:
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(DONE))
        async with await opened(client, EVENTS) as answer:
            last = parsed(await answer.read())[-1].id
        rows.fold(log.delete(DONE))
        assert (await opened(client, EVENTS, last)).status == 404


async def test_a_damaged_file_that_a_reader_meets_is_noted(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "a.sqlite")

    def broken(_: sqlite3.Connection) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    def missing(_: sqlite3.Connection) -> None:
        raise KeyError("a bug of one reader")

    with closing(rows.database), closing(rows.writer):
        sound = asyncio.create_task(rows.hub.reads.read(lambda _: "read"))
        with pytest.raises(KeyError):
            await rows.hub.reads.read(missing)
        assert (await sound, rows.database.damaged) == ("read", False)
        with pytest.raises(sqlite3.DatabaseError):
            await rows.hub.reads.read(broken)
        assert rows.database.damaged
        await rows.hub.reads.close()


async def test_a_slow_line_takes_longer_for_a_large_event_and_is_not_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "SLOW_SECONDS", 1.0)
    log, large = Log(), '"' + "x" * 8_000_000 + '"'
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(replace(DONE, result=large)))
        reader, writer = await asyncio.open_connection(
            client.server.host, client.server.port, limit=64 * 1024
        )
        writer.write(request_of(EVENTS))
        size = 0
        while size < 2 * len(large):  # the status and the end have it
            piece = await reader.read(200_000)
            assert piece, f"closed after {size:,} bytes"
            size += len(piece)
            await asyncio.sleep(0.03)  # the line is slow
        writer.close()


def request_of(path: str) -> bytes:
    told = HEADERS["Authorization"]
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {told}\r\n\r\n".encode()
