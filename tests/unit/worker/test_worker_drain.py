"""An orderly end: slots are withdrawn first, and the last word comes last."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs
from support.worker_bench import Bench, bench

from streams import App, Context
from streams.errors import Fenced
from streams.serde.link.messages import Beat
from streams.worker import worker


class Jobs:
    """A job that runs until it is let go."""

    def __init__(self) -> None:
        self.app = App("test")
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()

        @self.app.job("job")
        async def handler(ctx: Context) -> None:
            self.begun.set()
            await self.let_go.wait()


@asynccontextmanager
async def serving(jobs: Jobs) -> AsyncIterator[tuple[Bench, asyncio.Event, asyncio.Task[None]]]:
    """A worker that serves; with it the event that stops it, and its task."""
    async with bench(jobs.app, slots=8) as at:
        stop = asyncio.Event()
        task = asyncio.create_task(at.worker.serve(stop))
        await asyncio.sleep(0)
        yield at, stop, task


async def test_slots_are_withdrawn_at_once_and_the_worker_ends_behind_the_last_end() -> None:
    jobs = Jobs()
    async with serving(jobs) as (at, stop, task):
        lease = at.give()
        await jobs.begun.wait()
        stop.set()
        for _ in range(20):
            await asyncio.sleep(0)
        newest = at.owner.of(Beat)[-1]
        assert (newest.limit, newest.draining) == (1, True)
        late = at.give()
        assert (await at.declined(late)).detail == "the worker shuts down"
        at.silent = True
        jobs.let_go.set()
        await at.ended(lease)
        assert at.owner.closed_for is None
        at.acknowledge()
        await task
        assert at.owner.closed_for is not None


async def test_an_idle_worker_declines_the_lease_that_crosses_its_last_beat() -> None:
    async with serving(Jobs()) as (at, stop, task):
        at.silent = True
        stop.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert at.owner.of(Beat)[-1].draining
        late = at.give()
        assert at.owner.closed_for is None
        at.silent = False
        at.acknowledge()
        assert (await at.declined(late)).detail == "the worker shuts down"
        await task


async def test_an_end_that_nobody_acknowledges_does_not_hold_the_worker_up_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "LEAVE_SECONDS", 0.05)
    jobs = Jobs()
    async with serving(jobs) as (at, _, task):
        at.give()
        await jobs.begun.wait()
        at.silent = True
        jobs.let_go.set()
        with capture_logs() as lines:
            at.worker.failed(Fenced("another process runs"))
            with pytest.raises(Fenced):
                await task
        assert any("not acknowledged everything" in line["event"] for line in lines)


async def test_its_log_names_the_jobs_for_which_it_waits() -> None:
    jobs = Jobs()
    async with serving(jobs) as (at, stop, task):
        lease = at.give()
        await jobs.begun.wait()
        with capture_logs() as lines:
            stop.set()
            async with asyncio.timeout(10):
                while not lines:
                    await asyncio.sleep(0)
            jobs.let_go.set()
            await task
    (line,) = [line for line in lines if line["event"] == "draining"]
    assert (line["jobs"], line["seconds"]) == (f"{lease.job_id} job", 20)


async def test_a_failure_ends_the_worker_with_its_error() -> None:
    jobs = Jobs()
    async with serving(jobs) as (at, _, task):
        at.worker.failed(Fenced("another process runs"))
        with pytest.raises(Fenced, match="another process runs"):
            await task


async def test_threads_that_hang_in_the_loops_pool_keep_no_worker_from_ending() -> None:
    """A handler's `asyncio.to_thread` may hang; the worker ends without a place in that pool."""
    jobs, let_go = Jobs(), threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    hanging = asyncio.create_task(asyncio.to_thread(let_go.wait, 20))
    try:
        async with serving(jobs) as (_, stop, task):
            stop.set()
            async with asyncio.timeout(10):
                await task
    finally:
        let_go.set()
        await hanging
