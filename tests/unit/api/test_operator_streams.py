"""Streams of what jobs do: each record once and in order, from any position, on any replica."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import ClientResponse
from support.conditions import PATIENCE_SECONDS
from support.live_desk import (
    HEADERS,
    HOUR_MS,
    Got,
    Log,
    Rows,
    StepOf,
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

from streams.api.live import reader, sender
from streams.api.live.rounds import SharedReads
from streams.process.shared_room import SharedRoom
from streams.process.wall_clock import wall_ms
from streams.serde.ids import partition_for
from streams.serde.records import Held, Job, Progress, StepResult, Workflow

EVENTS = "/v1/jobs/job_a/events"
RUNNING = make_job(status="running", attempts=1, epoch=1, run_id="run_1")
DONE = replace(RUNNING, status="succeeded", result='{"sent":1}', updated_at=1_700_000_009_000)
PROGRESS = Progress("job_a", "acme", "run_1", 1_700_000_001_000, '{"pct":50}')
DRAFT = StepOf("job_a", StepResult("draft", "step", 0, value='"Hi"'))

Client = Any


@asynccontextmanager
async def desk(tmp_path: Path, name: str = "a", **given: Any) -> AsyncIterator[tuple[Rows, Client]]:
    rows = Rows(tmp_path / f"{name}.sqlite", **given)
    async with serving(rows) as client:
        yield rows, client


async def whole(client: Client, path: str = EVENTS, last: str | None = None) -> list[Got]:
    async with await opened(client, path, last) as answer:
        assert answer.status == 200, await answer.text()
        return parsed(await answer.read())


def names(got: list[Got]) -> list[str]:
    return [each.event for each in got]


async def test_a_job_is_told_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING))
        async with await opened(client, EVENTS) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            assert answer.headers["X-Accel-Buffering"] == "no"
            first = await until(answer, "status")
            assert first[0].data == await (await client.get(EVENTS[:-7], headers=HEADERS)).json()
            rows.fold(*log.append(token("job_a", 0, "Dear ", step="draft"), line("job_a", 0, "x")))
            assert names(await until(answer, "log")) == ["token", "log"]
            rows.fold(*log.append(token("job_a", 1, "you", step="draft"), DRAFT, PROGRESS))
            rows.fold(*log.append(make_entry(RUNNING, "email:send/reply")))
            got = await until(answer, "effect")
            assert sorted(names(got)) == ["effect", "progress", "step", "token"]
            rows.fold(*log.append(DONE))
            last = await until(answer, "end")
            assert await answer.content.read() == b""
    assert names(last) == ["status", "end"]
    assert last[-1].data["status"] == "succeeded"
    assert last[-1].data["result"] == {"sent": 1}
    by_name = {each.event: each.data for each in got}
    assert by_name["token"] == {
        "text": "you",
        "job_id": "job_a",
        "run_id": "run_1",
        "step": "draft",
        "n": 1,
    }
    assert by_name["step"]["name"] == "draft"
    assert by_name["progress"]["value"] == {"pct": 50}
    assert by_name["effect"]["of_job"] == "job_a"


async def test_every_frame_has_an_id_and_after_the_end_there_is_nothing(tmp_path: Path) -> None:
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING, token("job_a", 0, "Hi"), DONE))
        got = await whole(client)
        assert all(each.id for each in got)
        assert names(got) == ["token", "status", "end"]
        async with await opened(client, EVENTS, got[-1].id) as answer:
            assert (answer.status, await answer.read()) == (204, b"")
        assert names(await whole(client, last=got[-2].id)) == ["end"]


def story(log: Log) -> list[Any]:
    """A job of two runs: the second streams one step again, and keeps the value of another."""
    second = replace(RUNNING, attempts=2, epoch=2, run_id="run_2")
    texts_of = {
        "kept": [token("job_a", n, f"kept {n}; ", step="kept") for n in range(4)],
        "lost": [token("job_a", n, f"lost {n}; ", step="ask") for n in range(5)],
        "again": [token("job_a", n, f"said \u00fc {n}; ", step="ask", epoch=2) for n in range(6)],
    }
    zombie = token("job_a", 5, "from beyond", step="ask")
    return [
        *log.append(RUNNING, *texts_of["kept"], DRAFT, line("job_a", 0, "begins")),
        *log.append(*texts_of["lost"], PROGRESS, second, reset("job_a", step="ask")),
        *log.append(texts_of["again"][0], zombie, *texts_of["again"][1:], texts_of["again"][-1]),
        *log.append(make_entry(RUNNING, "email:send/reply"), replace(DONE, epoch=2)),
    ]


WHOLE = {
    "kept": "".join(f"kept {n}; " for n in range(4)),
    "ask": "".join(f"said \u00fc {n}; " for n in range(6)),
}


async def test_a_stream_cut_at_every_byte_is_whole_when_it_is_resumed(tmp_path: Path) -> None:
    async with desk(tmp_path) as (rows, client):
        rows.fold(*story(Log()))
        async with await opened(client, EVENTS) as answer:
            raw = await answer.read()
        expected = parsed(raw)
        assert texts(expected) == WHOLE
        rest: dict[str | None, list[Got]] = {}
        for cut in range(len(raw)):
            got = parsed(raw[:cut])
            last = got[-1].id if got else None
            if last not in rest and last != expected[-1].id:
                rest[last] = await whole(client, last=last)
            assert got + rest.get(last, []) == expected, f"cut at byte {cut}"
    assert len(rest) == len(expected)


async def some_of(answer: ClientResponse, most: int) -> bytes:
    """So many bytes of a stream, or those that come within a moment."""
    raw = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(0.005):
            while len(raw) < most and (piece := await answer.content.read(most - len(raw))):
                raw += piece
    return raw


async def test_a_thousand_readers_that_are_cut_while_it_goes_on_get_the_same_text(
    tmp_path: Path,
) -> None:
    random, log = Random(4711), Log()
    count, cuts = 400, 0
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING))

        async def write() -> None:
            for n in range(count):
                rows.fold(*log.append(token("job_a", n, f"{n} ")))
                await asyncio.sleep(0)
                while cuts < (n + 1) * 1_000 // count:
                    await asyncio.sleep(0.001)
            rows.fold(*log.append(DONE))

        writing, got, last = asyncio.create_task(write()), list[Got](), None
        while not got or got[-1].event != "end":
            async with await opened(client, EVENTS, last) as answer:
                fresh = parsed(await some_of(answer, random.choice((100, 400, 4_000))))
            got += fresh
            last = got[-1].id if got else None
            cuts += 1
        await writing
    assert cuts >= 1_000
    assert texts(got) == {"": "".join(f"{n} " for n in range(count))}
    assert [each.data["n"] for each in got if each.event == "token"] == list(range(count))


async def test_a_position_of_one_replica_is_good_on_another_that_is_behind_or_ahead(
    tmp_path: Path,
) -> None:
    records = story(Log())
    async with desk(tmp_path, "a") as (a, at_a), desk(tmp_path, "b") as (b, at_b):
        a.fold(*records)
        expected = await whole(at_a)
        for number in range(1, len(expected)):
            tail = await whole(at_a, last=expected[number - 1].id)
            assert tail == expected[number:]
        b.fold(*records[:3])
        last = expected[7].id
        async with await opened(at_b, EVENTS, last) as answer:
            for record in records[3:]:
                b.fold(record)
                await asyncio.sleep(0)
            got = await until(answer, "end")
    # The replica that was behind shows states that the other one skipped, and no text twice.
    assert texts(expected[:8] + got) == WHOLE
    assert names(got)[-1] == "end"


async def test_the_end_waits_until_all_that_was_said_is_read(tmp_path: Path) -> None:
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING))
        rows.settled.clear()
        async with await opened(client, EVENTS) as answer:
            await until(answer, "status")
            late = log.append(token("job_a", 0, "the last"))
            rows.fold(*log.append(DONE))
            while not rows.asked:
                await asyncio.sleep(0.001)
            assert "jobs.live" in {topic for topic, _ in rows.asked}
            rows.fold(*late)
            rows.settled.set()
            assert names(await until(answer, "end")) == ["token", "status", "end"]


async def test_a_job_that_lives_again_is_told_on(tmp_path: Path) -> None:
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(DONE))
        last = (await whole(client))[-1].id
        rows.fold(*log.append(replace(RUNNING, incarnation=2, epoch=3)))
        async with await opened(client, EVENTS, last) as answer:
            assert (await until(answer, "status"))[0].data["status"] == "running"
            rows.fold(*log.append(replace(DONE, incarnation=2, epoch=3)))
            assert names(await until(answer, "end")) == ["status", "end"]


async def test_a_job_that_is_purged_meanwhile_ends(tmp_path: Path) -> None:
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING))
        async with await opened(client, EVENTS) as answer:
            await until(answer, "status")
            rows.fold(log.delete(RUNNING))
            (end,) = await until(answer, "end")
    assert end.data == {"job_id": "job_a", "status": "purged"}


@pytest.mark.parametrize("bad", ["x", "AAAA", "!", "A" * 5_000, "\u00e9", "=" * 3])
async def test_an_id_that_no_stream_gave_out_is_malformed(tmp_path: Path, bad: str) -> None:
    async with desk(tmp_path) as (rows, client):
        rows.fold(*Log().append(RUNNING))
        answer = await client.get(EVENTS, params={"last_event_id": bad}, headers=HEADERS)
        assert answer.status == 400
        assert (await answer.json())["type"] == "urn:tidegate:problem:malformed-event-id"


async def test_an_id_of_another_job_is_refused_and_an_unknown_job_is_unknown(
    tmp_path: Path,
) -> None:
    log, other = Log(), replace(DONE, job_id="job_b", scope="job_b.1")
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(DONE, other))
        last = (await whole(client, "/v1/jobs/job_b/events"))[0].id
        assert (await opened(client, EVENTS, last)).status == 400
        both = "/v1/stream?jobs=job_a,job_b"
        assert (await opened(client, both, last)).status == 400
        assert (await opened(client, "/v1/jobs/job_c/events")).status == 404
        assert (await opened(client, "/v1/stream?jobs=job_a,job_c")).status == 404
        assert (await opened(client, "/v1/workflows/job_c/events")).status == 404
        assert (await opened(client, "/v1/stream")).status == 422
        many = ",".join(f"job_{n}" for n in range(101))
        assert (await opened(client, f"/v1/stream?jobs={many}")).status == 422


async def test_an_id_older_than_what_is_kept_gets_a_gap_and_all_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING))
        with monkeypatch.context() as long_ago:
            long_ago.setattr(reader, "wall_ms", lambda: wall_ms() - 7 * HOUR_MS)
            async with await opened(client, EVENTS) as answer:
                (old,) = await until(answer, "status")
        rows.fold(*log.append(token("job_a", 7, "what is left"), DONE))
        got = await whole(client, last=old.id)
        assert names(got) == ["gap", "token", "status", "end"]
        assert texts(got) == {"": "what is left"}
        assert "6 hours" in got[0].data["reason"]
        assert names(await whole(client, last=got[0].id)) == ["token", "status", "end"]


async def test_an_old_id_of_a_job_that_has_ended_is_still_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path) as (rows, client):
        rows.fold(*Log().append(DONE))
        monkeypatch.setattr(reader, "wall_ms", lambda: wall_ms() - 700 * HOUR_MS)
        got = await whole(client)
        assert (await opened(client, EVENTS, got[-1].id)).status == 204


async def test_several_jobs_share_a_stream_and_each_has_its_end(tmp_path: Path) -> None:
    log, path = Log(), "/v1/stream?jobs=job_b,job_a"
    b = replace(RUNNING, job_id="job_b", scope="job_b.1")
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING, b))
        async with await opened(client, path) as answer:
            got = await until(answer, "status", 2)
            rows.fold(*log.append(token("job_b", 0, "b"), token("job_a", 0, "a")))
            got += await until(answer, "token", 2)
            rows.fold(*log.append(DONE))
            got += await until(answer, "end")
            rows.fold(*log.append(token("job_b", 1, "b")))
            got += await until(answer, "token")
            rows.fold(*log.append(replace(b, status="failed", last_error="no")))
            got += await until(answer, "end")
        ends = [(each.data["job_id"], each.data["status"]) for each in got if each.event == "end"]
        assert ends == [("job_a", "succeeded"), ("job_b", "failed")]
        for number, each in enumerate(got[:-1]):
            rest = await whole(client, path, each.id)
            told = [(g.event, g.data.get("text")) for g in rest if g.event in ("token", "end")]
            after = got[number + 1 :]
            expected = [(g.event, g.data.get("text")) for g in after if g.event in ("token", "end")]
            assert sorted(told, key=str) == sorted(expected, key=str)
        assert (await opened(client, path, got[-1].id)).status == 204


async def test_a_snapshot_that_is_newer_than_what_was_heard_hides_no_other_job(
    tmp_path: Path,
) -> None:
    log, path = Log(), "/v1/stream?jobs=job_b,job_a"
    b = replace(RUNNING, job_id="job_b", scope="job_b.1")
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING, b))
        query, heard = rows.query_of, list[Any]()

        async def newer(look: Callable[..., Any], tenants: Any) -> Any:
            """Rows are committed between the wake of a reader and its read, and not announced."""
            if not heard:
                later = log.append(replace(b, attempts=2), replace(RUNNING, attempts=2))
                said = log.append(token("job_b", 0, "b"), token("job_a", 1, "a"))
                heard.extend(rows.fold_unheard(*later, *said))
            return await query(look, tenants)

        async with await opened(client, path) as answer:
            got = await until(answer, "status", 2)
            rows.hub.reads._query = newer
            rows.fold(*log.append(token("job_a", 0, "A"), replace(RUNNING, lost=1)))
            got += await until(answer, "token")
            rows.notifier.announce(heard)
            got += await until(answer, "status", 2)
            rows.fold(*log.append(DONE, replace(b, status="dead")))
            got += await until(answer, "end", 2)
        shown = {(g.data["job_id"], g.data["attempts"]) for g in got if g.event == "status"}
        assert shown >= {("job_a", 2), ("job_b", 2)}
        assert sorted(g.data["text"] for g in got if g.event == "token") == ["A", "a", "b"]


async def test_a_workflow_tells_what_all_its_jobs_do_and_how_it_ends(tmp_path: Path) -> None:
    log, path = Log(), "/v1/workflows/job_a/events"
    root = replace(RUNNING, workflow_id="job_a")
    child = replace(RUNNING, job_id="job_b", scope="job_b.1", workflow_id="job_a", depth=1)
    flow = Workflow("job_a", "acme", "job_a", "draft_reply", "running", {"running": 1}, 1)
    ends = replace(flow, jobs={"succeeded": 2}, status="succeeded", outcome="succeeded")
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(root, flow))
        async with await opened(client, path) as answer:
            got = await until(answer, "status", 2)
            rows.fold(*log.append(child, replace(flow, jobs={"running": 2})))
            got += await until(answer, "status", 2)
            rows.fold(*log.append(token("job_b", 0, "from the child")))
            got += await until(answer, "token")
            ended = [replace(each, status="succeeded") for each in (child, root)]
            rows.fold(*log.append(*ended, ends))
            got += await until(answer, "end")
            assert await answer.content.read() == b""
        assert got[-1].data["outcome"] == "succeeded"
        assert [g.data["job_id"] for g in got if "job_id" in g.data] == [
            *("job_a", "job_b", "job_b", "job_b", "job_a")
        ]
        assert (await opened(client, path, got[-1].id)).status == 204


async def test_a_job_without_children_is_a_workflow_too(tmp_path: Path) -> None:
    log, path = Log(), "/v1/workflows/job_a/events"
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING))
        async with await opened(client, path) as answer:
            await until(answer, "status")
            rows.fold(*log.append(token("job_a", 0, "Hi"), DONE))
            got = await until(answer, "end")
        assert names(got) == ["token", "status", "end"]
        assert (await opened(client, path, got[-1].id)).status == 204


async def test_why_a_job_waits_is_told_again_when_it_changes(tmp_path: Path) -> None:
    log = Log()
    pending = make_job()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(pending))
        async with await opened(client, EVENTS) as answer:
            (first,) = await until(answer, "status")
            home = partition_for("acme", rows.topology.partitions)
            why = Held(home, "default", "draft_reply", None, "no_worker", 1, 3, "start one")
            rows.fold(log.held(why))
            (again,) = await until(answer, "status")
            assert (first.data["held"], again.data["held"]["reason"]) == (None, "no_worker")
            rows.fold(*log.append(DONE))
            assert names(await until(answer, "end")) == ["status", "end"]


async def test_a_shared_effect_that_another_job_makes_is_told(tmp_path: Path) -> None:
    log = Log()
    note = make_entry(RUNNING, "@tenant/email:send/x", status="shared", result=None)
    shared = replace(note, scope="@tenant", action="email:send/x", status="claimed", job_id="job_b")
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING, shared, note))
        async with await opened(client, EVENTS) as answer:
            got = await until(answer, "effect")
            rows.fold(*log.append(replace(shared, status="done", result='{"sent":1}')))
            got += await until(answer, "effect")
        told = [(g.data["of_job"], g.data["status"]) for g in got if g.event == "effect"]
        assert told == [("job_a", "claimed"), ("job_a", "done")]


async def test_a_reader_is_woken_by_changes_of_its_own_jobs_alone(tmp_path: Path) -> None:
    log, other = Log(), replace(RUNNING, job_id="job_b", scope="job_b.1")
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING, other))
        async with await opened(client, EVENTS) as answer:
            await until(answer, "status")
            rows.fold(*log.append(token("job_a", 0, "mine")))
            await until(answer, "token")
            before = rows.reads
            for n in range(50):
                rows.fold(*log.append(token("job_b", n, "not mine")))
                await asyncio.sleep(0)
            rows.fold(*log.append(token("job_a", 1, "mine again")))
            await until(answer, "token")
            assert rows.reads == before + 1
        assert rows.notifier.hurry.is_set()
    assert rows.hub.readers == 0
    assert not rows.notifier.hurry.is_set()


async def test_a_quiet_stream_shows_that_it_lives_with_its_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "QUIET_SECONDS", 0.02)
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING))
        async with await opened(client, EVENTS) as answer:
            (first,) = await until(answer, "status")
            quiet = await answer.content.readany()
            assert quiet.startswith(f": \nid: {first.id}\n\n".encode())
            assert parsed(quiet) == []


async def test_a_reader_that_sleeps_is_closed_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "SLOW_SECONDS", 0.2)
    log, text = Log(), "x" * 16_000
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING))
        server = client.server
        _, outward = await asyncio.open_connection(server.host, server.port)
        outward.transport.pause_reading()  # type: ignore[attr-defined]
        outward.write(
            f"GET {EVENTS} HTTP/1.1\r\nHost: x\r\nAuthorization: {HEADERS['Authorization']}"
            "\r\n\r\n".encode()
        )
        count = 0
        while not rows.hub.readers:
            await asyncio.sleep(0.001)
        while rows.hub.readers:
            rows.fold(*log.append(token("job_a", count, text)))
            count += 1
            await asyncio.sleep(0)
            assert count < 3_000, "the reader is never closed"
        outward.close()
        rows.fold(*log.append(DONE))
        got = await whole(client)
        assert len(texts(got)[""]) == len(text) * count
        half = got[len(got) // 2]
        assert names(await whole(client, last=half.id)) == names(got)[len(got) // 2 + 1 :]


async def test_a_ticket_opens_one_stream_of_its_jobs_without_a_token(tmp_path: Path) -> None:
    log, other = Log(), replace(DONE, job_id="job_b", scope="job_b.1")
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(DONE, other))

        async def ticket(**body: Any) -> str:
            made = await client.post("/v1/stream-tickets", json=body, headers=HEADERS)
            assert made.status == 201
            found = await made.json()
            assert found["expires_in"] == 30
            return str(found["ticket"])

        async def status(path: str, ticket: str) -> int:
            return int((await client.get(path, params={"ticket": ticket})).status)

        one = await ticket(jobs=["job_a"])
        assert await status("/v1/jobs/job_b/events", one) == 401
        assert await status("/v1/jobs/job_a", one) == 401
        assert await status(EVENTS, one) == 200
        assert await status(EVENTS, one) == 401
        both = await ticket(jobs=["job_b", "job_a"])
        assert await status("/v1/stream?jobs=job_a,job_b", both) == 200
        assert await status("/v1/workflows/job_a/events", await ticket(workflow_id="job_a")) == 200
        assert (await client.post("/v1/stream-tickets", json={"jobs": ["job_a"]})).status == 401
        wrong: tuple[Any, ...] = (
            {},
            {"jobs": []},
            {"jobs": ["a"], "workflow_id": "b"},
            {"jobs": ["a"] * 101},
        )
        for bad in wrong:
            answer = await client.post("/v1/stream-tickets", json=bad, headers=HEADERS)
            assert answer.status == 422


async def test_a_token_that_opens_streams_without_end_leaves_some_to_others(
    tmp_path: Path,
) -> None:
    log, rows = Log(), Rows(tmp_path / "a.sqlite")
    rows.streams = replace(rows.streams, room=SharedRoom(8, 3))
    async with serving(rows) as client, AsyncExitStack() as streams:
        rows.fold(*log.append(RUNNING))
        for _ in range(6):
            answer = await streams.enter_async_context(await opened(client, EVENTS))
            await until(answer, "status")
        async with await opened(client, EVENTS) as answer:
            told = await answer.json()
            assert (answer.status, told["type"]) == (503, "urn:tidegate:problem:too-many-streams")
        assert rows.streams.room.try_enter("another", 1)
        await streams.aclose()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while rows.hub.readers:
                rows.hub.close()
                await asyncio.sleep(0.01)
        async with await opened(client, EVENTS) as answer:
            await until(answer, "status")


async def test_a_stream_whose_read_model_fails_is_broken_off(tmp_path: Path) -> None:
    log = Log()
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(RUNNING))
        async with await opened(client, EVENTS) as answer:
            await until(answer, "status")

            async def broken(*_: Any) -> Any:
                raise RuntimeError("a bug")

            rows.hub.reads._query = broken
            rows.fold(*log.append(token("job_a", 0, "Hi")))
            with pytest.raises(Exception, match=r"(?i)transfer|payload|connection"):
                await answer.read()


async def test_no_thread_reads_any_more_once_the_reads_are_closed() -> None:
    may_end, reading = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def query(look: Callable[..., Any], _: Any) -> Any:
        return await asyncio.to_thread(look, None)

    def slow(_: object) -> str:
        loop.call_soon_threadsafe(reading.set)
        may_end.wait(10)
        return "read"

    reads = SharedReads(query)
    first = asyncio.create_task(reads.read(slow))
    await reading.wait()
    second = asyncio.create_task(reads.read(slow))
    await asyncio.sleep(0)
    closing = asyncio.create_task(reads.close())
    await asyncio.sleep(0)
    assert not closing.done()
    may_end.set()
    await closing
    assert await first == "read"
    with pytest.raises(asyncio.CancelledError):
        await second
    with pytest.raises(ConnectionResetError):
        await reads.read(slow)


def job_of(number: int) -> Job:
    return replace(RUNNING, job_id=f"job_{number:03}", scope=f"job_{number:03}.1")


async def test_a_hundred_jobs_in_one_stream_come_in_pages(tmp_path: Path) -> None:
    log, jobs = Log(), [job_of(n) for n in range(100)]
    path = f"/v1/stream?jobs={','.join(each.job_id for each in jobs)}"
    async with desk(tmp_path) as (rows, client):
        rows.fold(*log.append(*jobs))
        for n in range(30):
            rows.fold(*log.append(*(token(each.job_id, n, f"{n},") for each in jobs)))
        rows.fold(*log.append(*(replace(each, status="succeeded") for each in reversed(jobs))))
        got = await whole(client, path)
        assert sum(each.event == "end" for each in got) == 100
        for each in jobs:
            mine = [g for g in got if g.data["job_id"] == each.job_id]
            assert texts(mine) == {"": "".join(f"{n}," for n in range(30))}
            assert mine[-1].event == "end"
        middle = got[len(got) // 2].id
        assert await whole(client, path, middle) == got[len(got) // 2 + 1 :]
