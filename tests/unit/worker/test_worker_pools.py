"""Several pools in one worker process: its workers are ready together, and end together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.worker_bench import Bench, Clock, bench, topology

from streams import App, Context
from streams.errors import ConfigError, Fenced
from streams.serde.records import Lease
from streams.settings import load_settings
from streams.topology.model import JobType
from streams.worker import metrics
from streams.worker.handler.watchdog import Watchdog
from streams.worker.pools import asked, places
from streams.worker.workers import Workers

POOLS = replace(
    topology(), pools=("default", "slow"), job_types={"big": JobType("big", pool="slow")}
)


class Jobs:
    """A job that runs until it is let go."""

    def __init__(self) -> None:
        self.app = App("test")
        self.let_go = asyncio.Event()

        @self.app.job("job")
        async def handler(ctx: Context) -> None:
            await self.let_go.wait()


@asynccontextmanager
async def two(jobs: Jobs) -> AsyncIterator[tuple[Bench, Bench]]:
    async with AsyncExitStack() as opened:
        first = await opened.enter_async_context(bench(jobs.app, slots=2))
        second = await opened.enter_async_context(bench(jobs.app, slots=2))
        yield first, second


async def served(workers: Workers, stop: asyncio.Event, *both: Bench) -> asyncio.Task[None]:
    """The task of workers that serve; their heartbeats are sent."""
    task = asyncio.create_task(workers.serve(stop))
    for _ in range(3):
        await asyncio.sleep(0)
    return task


async def ends(at: Bench, lease: Lease) -> str:
    return (await at.ended(lease)).status


async def test_they_run_beside_each_other_and_are_drained_together() -> None:
    jobs, stop, before = Jobs(), asyncio.Event(), metrics.RUNNING._value.get()
    async with two(jobs) as (first, second):
        task = await served(Workers([first.worker, second.worker]), stop, first, second)
        leases = [each.give() for each in (first, second)]
        assert metrics.RUNNING._value.get() == before + 2
        stop.set()
        while not (first.worker.held_leases.draining and second.worker.held_leases.draining):
            await asyncio.sleep(0)
        jobs.let_go.set()
        assert [await ends(first, leases[0]), await ends(second, leases[1])] == ["succeeded"] * 2
        await task
    assert metrics.RUNNING._value.get() == before


async def test_the_failure_of_one_ends_all_and_the_others_finish_their_runs() -> None:
    jobs, stop = Jobs(), asyncio.Event()
    async with two(jobs) as (first, second):
        task = await served(Workers([first.worker, second.worker]), stop, first, second)
        lease = second.give()
        first.worker.failed(Fenced("another worker runs"))
        await stop.wait()
        jobs.let_go.set()
        assert await ends(second, lease) == "succeeded"
        with pytest.raises(Fenced):
            await task


async def test_what_they_share_fails_all_of_them() -> None:
    stop = asyncio.Event()
    async with two(Jobs()) as (first, second):
        workers = Workers([first.worker, second.worker])
        task = await served(workers, stop, first, second)
        workers.failed(Fenced("tenants stand still"))
        with pytest.raises(Fenced, match="tenants"):
            await task


async def test_they_are_ready_if_each_of_them_is() -> None:
    async with two(Jobs()) as (first, second):
        workers = Workers([first.worker, second.worker])
        assert workers.unready is None
        second.owner.cut()
        assert (workers.unready or "").startswith("pool default: no owner of partitions")
        assert (Workers([second.worker]).unready or "").startswith("no owner")


async def test_a_run_of_another_pool_that_blocks_the_loop_is_known_and_named_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own worker's watchdog names it, and ends the process after its timeout and no sooner."""
    app, exits, lines = App("test"), list[int](), list[str]()
    log = SimpleNamespace(error=lambda event, **_: lines.append(event))
    monkeypatch.setattr("streams.worker.handler.watchdog.log", log)

    @app.job("blocks", timeout=300)
    async def blocks(ctx: Context) -> None:
        looking = threading.Thread(target=look)
        looking.start()
        looking.join()

    def look() -> None:
        for seconds in (1.5, *[1] * 60):
            clock.now += seconds
            for watchdog in watchdogs:
                watchdog.look()

    clock = Clock()
    async with bench(app, clock=clock) as at, bench(app, clock=clock) as beside:
        watchdogs = [
            Watchdog(
                asyncio.get_running_loop(),
                each.worker.held_leases,
                each.worker.link,
                lambda: clock.now,
                exits.append,
            )
            for each in (at, beside)
        ]
        Workers([at.worker, beside.worker])
        at.give("blocks", timeout_seconds=300)
        await asyncio.sleep(0)
        await at.idle()
    assert exits == []
    assert lines == ["a handler blocks the event loop"]


def test_pools_are_asked_for_by_name_and_number() -> None:
    assert asked([]) == {"default": None}
    assert asked(["default", "slow=2"]) == {"default": None, "slow": 2}


@pytest.mark.parametrize("texts", [["slow=0"], ["slow="], ["=2"], ["slow=2/3"], ["slow", "slow=2"]])
def test_what_is_written_otherwise_is_refused(texts: list[str]) -> None:
    with pytest.raises(ConfigError, match="write NAME or NAME=SLOTS, each pool once"):
        asked(texts)


def test_a_pool_has_its_own_slots_or_those_of_the_settings() -> None:
    found = places(Jobs().app, load_settings(slots=7), POOLS, {"default": None, "slow": 2})
    assert [(place.pool, place.slots) for place in found] == [("default", 7), ("slow", 2)]


def test_a_job_counts_against_the_slots_of_its_own_pool() -> None:
    app, settings = Jobs().app, load_settings(slots=2)

    @app.job("big", weight=3)
    async def big(ctx: Context) -> None: ...

    places(app, settings, POOLS, {"default": None, "slow": 3})
    with pytest.raises(ConfigError, match="worker of pool 'slow' has 2 slots"):
        places(app, settings, POOLS, {"default": 9, "slow": None})


def test_an_unknown_pool_is_refused() -> None:
    with pytest.raises(ConfigError, match="--pool 'gpu' is not in the topology"):
        places(Jobs().app, load_settings(), POOLS, {"default": None, "gpu": 1})
