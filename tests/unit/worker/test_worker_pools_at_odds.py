"""Several pools in one process: what one of them suffers does the runs of the others no harm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from support.conditions import PATIENCE_SECONDS
from support.worker_bench import Bench, Clock, bench

from streams import App, Context
from streams.errors import StageFailed
from streams.serde.records import Lease
from streams.worker.handler.watchdog import Watchdog
from streams.worker.workers import Workers


class Jobs:
    """Jobs that run until they are let go; suspects say how many runs there are beside them."""

    def __init__(self) -> None:
        self.app, self.let_go = App("test"), asyncio.Event()
        self.running: list[str] = []
        self.beside: list[int] = []
        self.app.job("job")(self._job)
        self.app.job("suspect")(self._suspect)
        self.app.job("deaf")(self._deaf)

    async def _job(self, ctx: Context) -> None:
        self.running.append(ctx.job_id)
        await self.let_go.wait()
        self.running.remove(ctx.job_id)

    async def _suspect(self, ctx: Context) -> None:
        self.beside.append(len(self.running))
        self.running.append(ctx.job_id)
        await settled()
        self.running.remove(ctx.job_id)

    async def _deaf(self, ctx: Context) -> None:
        while not self.let_go.is_set():
            with suppress(asyncio.CancelledError):
                await self.let_go.wait()


@asynccontextmanager
async def two(jobs: Jobs) -> AsyncIterator[tuple[Bench, Bench]]:
    async with bench(jobs.app, slots=2) as first, bench(jobs.app, slots=2) as second:
        yield first, second


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def ends(at: Bench, lease: Lease) -> str:
    return (await at.ended(lease)).status


async def test_a_suspect_has_the_whole_process_to_itself() -> None:
    """If the process ends, no run of another pool is lost with it."""
    jobs = Jobs()
    async with two(jobs) as (first, second):
        Workers([first.worker, second.worker])
        other = second.give()
        await settled()
        suspect = first.give("suspect", alone=True)
        await settled()
        assert second.worker.held_leases.free() == 0
        assert (await second.declined(second.give())).detail == "no slot is free"
        assert jobs.beside == []
        jobs.let_go.set()
        assert await ends(second, other) == "succeeded"
        assert await ends(first, suspect) == "succeeded"
        assert jobs.beside == [0]
        await first.idle()
        assert second.worker.held_leases.free() == 2


async def test_suspects_of_two_pools_run_one_after_the_other() -> None:
    """Otherwise the one that ends the process would make the other one dead, too."""
    jobs = Jobs()
    async with two(jobs) as (first, second):
        runs = [first.give(), second.give()]
        suspects = [(each, each.give("suspect", alone=True)) for each in (first, second)]
        await settled()
        Workers([first.worker, second.worker])
        jobs.let_go.set()
        assert [await ends(first, runs[0]), await ends(second, runs[1])] == ["succeeded"] * 2
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert [await ends(*each) for each in suspects] == ["succeeded"] * 2
    assert jobs.beside == [0, 0]


async def test_a_pool_that_is_full_for_ever_lets_the_runs_of_others_end_first() -> None:
    jobs, exits, failures = Jobs(), list[int](), list[Exception]()
    async with two(jobs) as (first, second):
        Workers([first.worker, second.worker])
        clock, full = Clock(), first.worker
        watchdog = Watchdog(
            asyncio.get_running_loop(),
            full.held_leases,
            full.link,
            clock,
            exits.append,
            failures.append,
        )
        for _ in range(2):
            first.give("deaf", timeout_seconds=10)
        other = second.give(timeout_seconds=300)
        for held in full.held_leases.running():
            held.started_at = 0
        for clock.now in map(float, range(1, 60)):
            watchdog.tick()
            watchdog.look()
        assert exits == []
        assert [type(each) for each in failures] == [StageFailed]
        watchdog.stop()
        jobs.let_go.set()
        assert await ends(second, other) == "succeeded"
        await first.idle()
