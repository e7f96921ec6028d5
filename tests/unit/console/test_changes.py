"""The event stream of an open page: what it says, and what many readers take."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiohttp import ClientResponse
from support.console_desk import Browser, Console, console

from streams.api.read_model.fold_session import Lag
from streams.console.serving.readers import READERS, Readers
from streams.process.wall_clock import wall_ms
from streams.topology.load import load


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Console]:
    async with console(tmp_path) as made:
        yield made


def stream_of(html: str) -> str:
    return unescape(re.findall(r'hx-sse:connect="(/console/changes[^"]*)"', html)[0])


async def reached(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def first_line(browser: Browser, path: str, said: Callable[[], Awaitable[None]]) -> str:
    async with browser.session.get(browser.url(path)) as answer:
        assert answer.status == 200
        await said()
        async with asyncio.timeout(10):
            await answer.content.readline()
            return (await answer.content.readline()).decode()


async def test_a_page_hears_of_what_was_read_since_it_was_made(desk: Console) -> None:
    at = {"jobs": 5}
    desk.api.desk.follower = SimpleNamespace(lag=None, folded=lambda place: at.get(place[0], 0))
    browser = await desk.signed_in("viewer")
    path = stream_of(await browser.page("/console/jobs"))
    at["jobs"] = 6

    async def nothing() -> None:
        return

    assert await first_line(browser, path, nothing) == "event: changed\n"


async def test_many_readers_of_many_topics_look_once(desk: Console) -> None:
    looked: list[tuple[str, int]] = []
    topology = load()

    def folded(place: tuple[str, int]) -> int:
        looked.append(place)
        return 0

    follower = SimpleNamespace(folded=folded)
    readers = Readers(SimpleNamespace(topology=topology, follower=follower))  # type: ignore[arg-type]
    positions = {readers.position(["jobs", "dlq"] * 100) for _ in range(500)}
    assert len(positions) == 1
    assert len(looked) == 2 * topology.partitions


async def test_the_more_pages_are_open_the_rarer_each_is_fetched_anew() -> None:
    readers = Readers(SimpleNamespace())  # type: ignore[arg-type]
    assert readers.pause_seconds == 1.0
    readers.count = 500
    assert readers.pause_seconds == 25.0


async def test_a_reader_that_has_gone_takes_nothing_any_more(desk: Console) -> None:
    browser, readers = await desk.signed_in("viewer"), desk.app[READERS]
    async with browser.session.get(browser.url("/console/changes?of=jobs")):
        await reached(lambda: readers.count == 1)
    await reached(lambda: readers.count == 0)


async def test_a_page_and_its_stream_say_when_all_rows_are_old(desk: Console) -> None:
    lag = Lag(0, 0.0, wall_ms() - 60_000)
    desk.api.desk.follower = SimpleNamespace(lag=None, folded=lambda _: 0)
    browser = await desk.signed_in("viewer")
    html = await browser.page("/console/jobs")
    assert "the operator does not hear from Kafka" not in html
    async with browser.session.get(browser.url(stream_of(html))) as answer:
        desk.api.desk.follower.lag = lag
        assert await event_of(answer) == b"event: late\n"
        assert (await answer.content.readline()).startswith(b'data: {"seconds": 6')
        await answer.content.readline()
        html = await browser.page("/console/jobs")
        assert "s old or more: the operator does not hear from Kafka" in html
        desk.api.desk.follower.lag = None
        assert await event_of(answer) == b"event: late\n"
        assert await answer.content.readline() == b'data: {"seconds": 0}\n'
    async with browser.session.get(browser.url(stream_of(html))) as answer:
        assert await event_of(answer) == b"event: late\n"


async def event_of(answer: ClientResponse) -> bytes:
    """The next line of a stream."""
    async with asyncio.timeout(10):
        return await answer.content.readline()


async def test_streams_end_with_the_process(desk: Console) -> None:
    browser, readers = await desk.signed_in("viewer"), desk.app[READERS]
    async with browser.session.get(browser.url("/console/changes?of=jobs")) as answer:
        readers.closing.set()
        async with asyncio.timeout(10):
            assert (await answer.read()).endswith(b"\n\n")
