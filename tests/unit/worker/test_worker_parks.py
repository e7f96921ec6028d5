"""A run parks only once nothing that its tasks asked of `ctx` is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.worker_bench import Bench, bench

from streams import App, Context
from streams.serde.records import Checkpoint, EventInfo, StepResult
from streams.worker.handler.values import digest
from streams.worker.handler.waits import Pending

EVENT = EventInfo("evt_1", "zendesk", "created", None, None, 1, "text/plain", None, None, "d", {})
SLEPT = StepResult("slept", "time", 1, digest({"kind": "time"}, "sleep"), "null")


def work() -> None:
    pass


def delay_one(at: Bench) -> None:
    """The next command is acknowledged after a pause."""
    at.late = 1


async def decides(ctx: Context, at: Bench, over: Pending) -> None:
    delay_one(at)
    await ctx.first(over=over, other=ctx.sleep(90, name="other"))


async def reads_its_payload(ctx: Context, at: Bench, over: Pending) -> None:
    at.slow_requests = True
    await ctx.payload()


async def hands_a_result_on(ctx: Context, at: Bench, over: Pending) -> None:
    async def deep(levels: int) -> None:
        await (asyncio.gather(deep(levels - 1)) if levels else ctx.step("deep", work))

    await deep(12)


@pytest.mark.parametrize("first", [decides, reads_its_payload, hands_a_result_on])
async def test_what_another_task_does_next_is_done_before(
    first: Callable[[Context, Bench, Pending], Awaitable[None]],
) -> None:
    async def other(ctx: Context) -> None:
        await first(ctx, at, ctx.sleep(60, name="slept"))
        await ctx.step("after", work)

    async def handler(ctx: Context) -> None:
        await asyncio.gather(ctx.wait_for_event({"subject": "t1"}), other(ctx))

    app = App("test")
    app.job("job")(handler)
    async with bench(app) as at:
        ref = at.event_body("evt_1", b"body")
        ended = await at.ended(at.give(steps=(SLEPT,), event=EVENT, payload_ref=ref))
        kept = [each.step.id for each in at.bodies(Checkpoint)]
    assert (ended.status, [wait.id for wait in ended.waits]) == ("parked", ["event"])
    assert kept[-1] == "after"


async def test_a_task_that_parks_later_is_parked_with_the_others() -> None:
    async def other(ctx: Context) -> Any:
        assert ctx.patched("pause")
        delay_one(at)
        await ctx.sleep(60)

    async def handler(ctx: Context) -> None:
        await asyncio.gather(ctx.wait_for_event({"subject": "t1"}), other(ctx))

    app = App("test")
    app.job("job")(handler)
    async with bench(app) as at:
        ended = await at.ended(at.give())
    assert {wait.id for wait in ended.waits} == {"event", "sleep"}


async def test_a_wait_is_in_flight_while_the_run_prepares_to_park() -> None:
    async def one(ctx: Context) -> Any:
        assert ctx.patched("pause")
        delay_one(at)
        await ctx.sleep(60)

    async def other(ctx: Context) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        await ctx.sleep(5)

    async def handler(ctx: Context) -> None:
        await asyncio.gather(one(ctx), other(ctx))

    app = App("test")
    app.job("job")(handler)
    async with bench(app) as at:
        ended = await at.ended(at.give())
    assert (ended.error or "").startswith("AmbiguousStep: time 'sleep' is in flight twice at once")


async def test_two_at_once_that_take_the_first_are_told_apart_by_a_branch_alone() -> None:
    async def one(ctx: Context, name: str) -> None:
        await ctx.first(event=ctx.wait_for_event({"subject": name}, name=name))

    async def handler(ctx: Context) -> None:
        await asyncio.gather(one(ctx, "a"), one(ctx, "b"))

    app = App("test")
    app.job("job")(handler)
    async with bench(app) as at:
        ended = await at.ended(at.give())
    assert (ended.error or "").endswith("tell them apart by `async with ctx.branch(...)`")
