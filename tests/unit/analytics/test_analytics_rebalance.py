"""What the API answers while partitions come and go; the tables are RocksDB's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer
from faust.types import TP
from support.operator_cluster import make_event

from streams.analytics import folds, metrics
from streams.analytics.figures import Figures
from streams.analytics.http import Api
from streams.analytics.partitions import TOPICS, Partitions
from streams.errors import StoreDamaged
from streams.process.wall_clock import wall_ms
from streams.serde.codec import ENVELOPE
from streams.settings import load_settings
from streams.topology.load import load

EVENTS = 5
PLACE = TP("events", 0)
SUMMARY = "/v1/analytics/summary"


@pytest.fixture
def partitions(tmp_path: Path) -> Iterator[Partitions]:
    settings = load_settings({}, data_dir=tmp_path, topic_prefix="")
    made = Partitions(settings, load(), dict.fromkeys(TOPICS, "id"))
    yield made
    made.close()


def count_events(partitions: Partitions) -> int:
    """Take a partition, and count some events of different types in it; returns their time."""
    at = wall_ms()
    partitions.take({PLACE})
    counted = partitions.get(PLACE)
    assert counted
    for number in range(EVENTS):
        value = ENVELOPE.encode(make_event(f"e{number}", event_type=f"t{number}"))
        folds.event(counted, b"acme", value, at)
        counted.advance(number, at)
    return at


class Served:
    """The API over real HTTP, and the errors that would end its process."""

    client: TestClient[web.Request, web.Application]

    def __init__(self, partitions: Partitions) -> None:
        self.errors: list[Exception] = []
        self.api = Api(load_settings({}, admin_token="right"), self.errors.append)
        self.api.partitions = partitions

    async def ask(self, path: str = SUMMARY) -> ClientResponse:
        return await self.client.get(path, headers={"Authorization": "Bearer right"})


@pytest.fixture
async def served(partitions: Partitions) -> AsyncIterator[Served]:
    made = Served(partitions)
    async with TestClient(TestServer(made.api.application())) as made.client:
        yield made


class Halfway:
    """Holds up whoever reads the tables at the first row."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        decode: Callable[[bytes], Figures] = Figures.decode

        def held_up(raw: bytes) -> Figures:
            self.reached.set()
            assert self.go_on.wait(30)
            return decode(raw)

        monkeypatch.setattr(Figures, "decode", held_up)


@pytest.mark.parametrize("back", [True, False])
async def test_a_query_reads_on_while_its_partition_goes_and_comes_back(
    served: Served, partitions: Partitions, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    count_events(partitions)
    halfway = Halfway(monkeypatch)
    asked = asyncio.ensure_future(served.ask())
    assert await asyncio.to_thread(halfway.reached.wait, 30)
    partitions.take(())
    if back:
        assert partitions.take({PLACE}) == {PLACE: EVENTS}
    halfway.go_on.set()
    answer = await asked
    told = await answer.json()
    assert (answer.status, told["events"]) == (200, EVENTS)
    assert "events:0" not in told["missing"]
    assert ("events:0" in (await (await served.ask()).json())["missing"]) is not back
    assert partitions.take({PLACE}) == {PLACE: EVENTS}


async def test_what_comes_while_a_query_reads_is_missing_from_its_answer(
    served: Served, partitions: Partitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_events(partitions)
    halfway = Halfway(monkeypatch)
    asked = asyncio.ensure_future(served.ask())
    assert await asyncio.to_thread(halfway.reached.wait, 30)
    partitions.take({PLACE, TP("duplicates", 0)})
    halfway.go_on.set()
    assert "duplicates:0" in (await (await asked).json())["missing"]


async def test_a_scrape_reads_on_while_its_partition_goes(
    served: Served, partitions: Partitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = count_events(partitions)
    partitions.write()
    monkeypatch.setattr(metrics, "wall_ms", lambda: at)
    halfway = Halfway(monkeypatch)
    collector = metrics.TablesCollector(lambda: served.api.partitions)

    def page(_: Any) -> tuple[bytes, str]:
        found = {each.name: each.samples for each in collector.collect()}
        return str(found["tidegate_analytics_events_this_hour"][0].value).encode(), "text/plain"

    monkeypatch.setattr("streams.analytics.http.metrics_page", page)
    asked = asyncio.ensure_future(served.ask("/metrics"))
    assert await asyncio.to_thread(halfway.reached.wait, 30)
    partitions.take(())
    halfway.go_on.set()
    assert await (await asked).text() == str(EVENTS)


async def test_before_the_first_assignment_it_says_when_to_ask_again(served: Served) -> None:
    answer = await served.ask()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert "no partition is assigned" in (await answer.json())["detail"]


@pytest.mark.parametrize("path", [SUMMARY, "/metrics"])
async def test_damage_that_a_query_finds_ends_the_process_which_then_rebuilds(
    served: Served, partitions: Partitions, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def damaged(*_: object) -> Any:
        raise StoreDamaged("a block has another checksum")

    count_events(partitions)
    monkeypatch.setattr("streams.analytics.http.answers.summary", damaged)
    monkeypatch.setattr("streams.analytics.http.metrics_page", damaged)
    answer = await served.ask(path)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert [type(error) for error in served.errors] == [StoreDamaged]
