"""Streams behind a proxy: the one of `tidegate dev`, and one that gathers what passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import ClientPayloadError, ClientSession, web
from aiohttp.test_utils import TestClient, TestServer
from support.live_desk import Got, Log, Rows, opened, parsed, serving, texts, token, until
from support.operator_cluster import make_job

from streams.http.forward import Origin, forward, forwarding_session

EVENTS = "/v1/jobs/job_a/events"
RUNNING = make_job(status="running", attempts=1, epoch=1, run_id="run_1")
DONE = replace(RUNNING, status="succeeded")

Pass = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def proxy(passing: Pass) -> AsyncIterator[TestClient[Any, Any]]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", passing)
    async with TestClient(TestServer(app)) as client:
        yield client


@asynccontextmanager
async def behind_our_own(origin: TestClient[Any, Any]) -> AsyncIterator[TestClient[Any, Any]]:
    url = str(origin.server.make_url("")).rstrip("/")
    async with forwarding_session() as session:

        async def passing(request: web.Request) -> web.StreamResponse:
            return await forward(session, request, [Origin("operator", url)])

        async with proxy(passing) as client:
            yield client


async def test_our_own_proxy_passes_each_token_on_at_once(tmp_path: Path) -> None:
    log, rows = Log(), Rows(tmp_path / "m.sqlite")
    async with serving(rows) as origin, behind_our_own(origin) as client:
        rows.fold(*log.append(RUNNING))
        async with await opened(client, EVENTS) as answer:
            assert answer.headers["X-Accel-Buffering"] == "no"
            await until(answer, "status")
            for n in range(20):
                rows.fold(*log.append(token("job_a", n, f"{n} ")))
                assert texts(await until(answer, "token")) == {"": f"{n} "}
            rows.fold(*log.append(DONE))
            last = (await until(answer, "end"))[-1].id
        assert (await opened(client, EVENTS, last)).status == 204


async def test_a_stream_that_breaks_behind_the_proxy_breaks_before_it_and_resumes(
    tmp_path: Path,
) -> None:
    log, rows = Log(), Rows(tmp_path / "m.sqlite")
    async with serving(rows) as origin, behind_our_own(origin) as client:
        rows.fold(*log.append(RUNNING, token("job_a", 0, "one ")))
        async with await opened(client, EVENTS) as answer:
            got = await until(answer, "token")

            async def broken(*_: Any) -> Any:
                raise ConnectionResetError("the origin is gone")

            query, rows.hub.reads._query = rows.hub.reads._query, broken
            rows.fold(*log.append(token("job_a", 1, "two ")))
            try:
                await answer.read()
                raise AssertionError("a stream that was broken off looks whole")
            except ClientPayloadError:
                rows.hub.reads._query = query
        rows.fold(*log.append(token("job_a", 2, "three"), DONE))
        async with await opened(client, EVENTS, got[-1].id) as answer:
            got += parsed(await answer.read())
    assert texts(got) == {"": "one two three"}


async def test_behind_a_proxy_that_gathers_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    log, rows, got = Log(), Rows(tmp_path / "m.sqlite"), list[Got]()
    async with serving(rows) as origin, ClientSession() as session:

        async def gathering(request: web.Request) -> web.StreamResponse:
            """Pass 700 bytes at once, in the middle of anything, and break off after ten times."""
            url = origin.server.make_url(request.path)
            async with session.get(url, headers=request.headers) as answer:
                response = web.StreamResponse(status=answer.status)
                await response.prepare(request)
                for _ in range(10):
                    held = b""
                    while len(held) < 700 and (piece := await answer.content.read(700 - len(held))):
                        held += piece
                    await response.write(held)
                    if len(held) < 700:
                        return response
                request.transport.abort()  # type: ignore[union-attr]
                return response

        rows.fold(*log.append(RUNNING))
        async with proxy(gathering) as client:
            writing = asyncio.create_task(_write(rows, log))
            while not got or got[-1].event != "end":
                raw = b""
                async with await opened(client, EVENTS, got[-1].id if got else None) as answer:
                    try:
                        while piece := await answer.content.readany():
                            raw += piece
                    except ClientPayloadError:
                        pass
                got += parsed(raw)
            await writing
    assert texts(got) == {"": "".join(f"token {n}; " for n in range(200))}
    assert [each.data["n"] for each in got if each.event == "token"] == list(range(200))


async def _write(rows: Rows, log: Log) -> None:
    for n in range(200):
        rows.fold(*log.append(token("job_a", n, f"token {n}; ")))
        await asyncio.sleep(0.002)
    rows.fold(*log.append(DONE))
