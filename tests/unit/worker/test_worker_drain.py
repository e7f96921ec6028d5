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
from streams.serde.records import Declined, Ended, Heartbeat


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
        at.transport.assign(3)
        yield at, stop, task


def heartbeats(at: Bench) -> list[tuple[int, Heartbeat]]:
    return [(p, c.body) for p, c in at.commands() if isinstance(c.body, Heartbeat)]


async def test_slots_are_withdrawn_at_once_and_the_last_heartbeat_follows_the_last_end() -> None:
    jobs = Jobs()
    async with serving(jobs) as (at, stop, task):
        lease = at.give()
        await jobs.begun.wait()
        told = len(heartbeats(at))
        stop.set()
        for _ in range(20):
            await asyncio.sleep(0)
        withdrawn = heartbeats(at)[told:]
        assert sorted((p, body.free, body.leaving) for p, body in withdrawn) == [
            (p, 0, False) for p in range(4)
        ]
        late = at.give()
        assert (await at.declined(late)).reason == "draining"
        jobs.let_go.set()
        await task
        kinds = [(p, c.body) for p, c in at.commands()]
        (end,) = (n for n, (_, body) in enumerate(kinds) if isinstance(body, Ended))
        leaving = [
            n for n, (_, body) in enumerate(kinds) if isinstance(body, Heartbeat) and body.leaving
        ]
        assert sorted(kinds[n][0] for n in leaving) == [0, 1, 2, 3]
        assert min(leaving) > end
        assert max(leaving) == len(kinds) - 1
        assert lease.job_id != late.job_id


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


async def test_a_lease_that_is_read_after_the_last_heartbeat_is_declined() -> None:
    jobs = Jobs()
    async with serving(jobs) as (at, stop, task):
        inbox = at.transport._open()
        stop.set()
        await task
        at.transport._inbox = inbox
        at.give(heartbeat_id=at.heartbeats(0)[0].command_id)
        assert [declined.reason for declined in at.bodies(Declined)] == ["draining"]
        assert not jobs.begun.is_set()


async def test_the_last_heartbeat_is_sent_until_it_is_acknowledged() -> None:
    jobs = Jobs()
    async with serving(jobs) as (at, stop, task):
        at.worker.held_leases.draining = True
        at.worker.heartbeater.tell()
        at.transport.failures = 2
        stop.set()
        await task
        leaving = [p for p, body in heartbeats(at) if body.leaving]
        assert sorted(leaving) == [0, 1, 2, 3]


async def test_a_transport_that_failed_ends_the_worker_with_its_error() -> None:
    jobs = Jobs()
    async with serving(jobs) as (at, _, task):
        at.worker.failed(Fenced("the producer cannot go on"))
        with pytest.raises(Fenced, match="the producer cannot go on"):
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


async def test_nothing_is_said_by_a_worker_that_was_never_assigned() -> None:
    jobs = Jobs()
    async with bench(jobs.app, slots=8) as at:
        at.worker.heartbeater.work_partition = None
        told = len(at.commands())
        await at.worker._leave()
        assert len(at.commands()) == told
