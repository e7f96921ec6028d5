"""Functions that hang after their runs are over do not use up the threads of everybody."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support.conditions import PATIENCE_SECONDS
from support.worker_bench import bench

from streams import App, Context
from streams.errors import StageFailed
from streams.worker.handler import watchdog
from streams.worker.handler.invoke import LEFT


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "MOST_HANGING", 3)


class Jobs:
    """A job whose step hangs in a thread, and one that goes on until it is let go."""

    def __init__(self) -> None:
        self.app, self.answer = App("test"), threading.Event()
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()

        @self.app.job("hangs")
        async def hangs(ctx: Context) -> None:
            await ctx.step("asks", self.answer.wait)

        @self.app.job("works")
        async def works(ctx: Context) -> str:
            self.begun.set()
            await self.let_go.wait()
            return "done"

    async def hang(self, at: Any, number: int) -> None:
        for _ in range(number):
            assert (await at.ended(at.give("hangs", timeout_seconds=0.01))).status == "retry"


async def test_a_worker_in_which_too_many_hang_drains_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever started it starts it again; until then no other job is harmed."""
    monkeypatch.setattr(watchdog, "HANGS_SECONDS", 0.0)
    jobs = Jobs()
    async with bench(jobs.app) as at, asyncio.timeout(PATIENCE_SECONDS):
        serving = asyncio.create_task(at.worker.serve(asyncio.Event()))
        await asyncio.sleep(0)
        other = at.give("works")
        await jobs.begun.wait()
        await jobs.hang(at, 4)
        while not at.worker.held_leases.draining:
            await asyncio.sleep(0.01)
        jobs.let_go.set()
        assert (await at.ended(other)).status == "succeeded"
        with pytest.raises(StageFailed, match="4 functions hang"):
            await serving
        jobs.answer.set()


async def test_a_thread_is_known_by_the_function_that_it_calls() -> None:
    app = App("test")

    def asks_the_shop() -> str:
        return threading.current_thread().name

    @app.job("job")
    async def job(ctx: Context) -> Any:
        return await ctx.step("asks", asks_the_shop)

    async with bench(app) as at:
        assert "asks_the_shop" in str((await at.ended(at.give())).result)


class Remote:
    """A proxy of what runs elsewhere: it has a method of each name, as those of xmlrpc have."""

    def __getattr__(self, name: str) -> Remote:
        return self

    def __call__(self) -> str:
        return "answered"


async def test_a_method_that_has_a_method_of_each_name_is_called_too() -> None:
    app = App("test")

    @app.job("job")
    async def job(ctx: Context) -> Any:
        return await ctx.step("asks", Remote().system.status)

    async with bench(app) as at:
        assert (await at.ended(at.give())).result == '"answered"'


async def test_a_few_that_hang_and_many_that_are_slow_end_no_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs, ends = Jobs(), list[Exception]()
    async with bench(jobs.app) as at, asyncio.timeout(PATIENCE_SECONDS):
        monkeypatch.setattr(at.worker.watchdog, "_worn", ends.append)
        await jobs.hang(at, 4)
        at.worker.watchdog.look()  # none of them hangs for long yet
        jobs.answer.set()
        while len(LEFT):
            await asyncio.sleep(0.01)
        jobs.answer.clear()
        await jobs.hang(at, 3)
        monkeypatch.setattr(watchdog, "HANGS_SECONDS", 0.0)
        at.worker.watchdog.look()
        jobs.answer.set()
    assert ends == []
