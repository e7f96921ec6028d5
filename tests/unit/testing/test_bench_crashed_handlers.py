"""Handlers of each shape do each thing once, and end alike, wherever their worker dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from support.bench_apps import Handler, app_of, tool

from streams import App, Context, JobFailed, TransientError, WaitTimeout
from streams.testing import Bench, Job, crash_points


async def two_at_once(ctx: Context) -> Any:
    async def branch(name: str) -> Any:
        async with ctx.branch(name):
            await ctx.step("draft", str, name)
            return await ctx.effect("keyed", tool, key=name)

    await asyncio.gather(*map(branch, "ab"))
    return "done"


async def a_loop_of_events(ctx: Context) -> Any:
    found = []
    for number in range(3):
        found.append((await ctx.wait_for_event({"subject": "s1"})).event_type)
        await ctx.effect("keyed", tool, key=str(number))
    return found


async def an_answer_or_a_reminder(ctx: Context) -> Any:
    came, _ = await ctx.first(answer=ctx.wait_for_event({"subject": "none"}), time=ctx.sleep(3_600))
    await ctx.effect("keyed", tool, key=came)
    return came


async def a_timeout(ctx: Context) -> Any:
    try:
        await ctx.wait_for_event({"subject": "none"}, timeout=60)
    except WaitTimeout:
        await ctx.effect("keyed", tool, key="late")
    return "late"


async def a_listener(ctx: Context) -> Any:
    paid = await ctx.listen({"subject": "s1"}, timeout=7_200)
    await ctx.effect("keyed", tool, key="invoice")
    return (await paid).event_type


async def all_of_three(ctx: Context) -> Any:
    one, _, three = await ctx.all(
        ctx.wait_for_event({"subject": "s1"}, name="one"),
        ctx.sleep(30),
        ctx.wait_for_event({"subject": "s2"}, name="two"),
    )
    await ctx.effect("keyed", tool, key="all")
    return [one.event_type, three.event_type]


async def a_question(ctx: Context) -> Any:
    asked = {"tool": "keyed", "key": "refund", "arguments": {"amount": 3}}
    decision = await ctx.approval("refund", prompt="?", effects=[asked], timeout=86_400)
    await ctx.effect("keyed", tool, key="refund", **(decision.edit or {"amount": 3}))
    return decision.approved


async def busy_at_first(ctx: Context) -> Any:
    await ctx.effect("keyed", tool, key="1")
    if ctx.attempt == 1:
        raise TransientError("busy")
    return "done"


async def once_for_the_tenant(ctx: Context) -> Any:
    return await ctx.effect("keyed", tool, key="1", once_per="tenant")


def events(bench: Bench, job: Job) -> None:
    for number in range(3):
        bench.deliver(f"e{number}", number, subject="s1")
    bench.deliver("f", subject="s2")
    bench.advance(3_700)


def events_one_by_one(bench: Bench, job: Job) -> None:
    for number in range(3):
        job.run()
        bench.deliver(f"e{number}", number, subject="s1")


def an_approval(bench: Bench, job: Job) -> None:
    job.approve("refund", by="ann", edit={"amount": 2})


def nothing(bench: Bench, job: Job) -> None:
    pass


@pytest.mark.parametrize(
    ("handler", "outside", "result", "keys"),
    [
        (two_at_once, nothing, "done", "ab"),
        (a_loop_of_events, events, ["e0", "e1", "e2"], "012"),
        (a_loop_of_events, events_one_by_one, ["e0", "e1", "e2"], "012"),
        (an_answer_or_a_reminder, events, "time", ["time"]),
        (a_timeout, events, "late", ["late"]),
        (a_listener, events, "e0", ["invoice"]),
        (all_of_three, events, ["e0", "f"], ["all"]),
        (a_question, an_approval, True, ["refund"]),
        (busy_at_first, nothing, "done", "1"),
        (once_for_the_tenant, nothing, {"did": {}}, "1"),
    ],
)
def test_each_thing_is_done_once_wherever_the_worker_dies(
    handler: Handler, outside: Callable[[Bench, Job], None], result: object, keys: list[str]
) -> None:
    for crash in crash_points():
        with Bench(app_of(handler), crash=crash) as bench:
            job = bench.submit("job").run()
            outside(bench, job)
            assert (job.run().status, job.result) == ("succeeded", result)
            assert Counter(call.key for call in job.happened) == Counter(keys)
            assert job.record.waits == ()


async def parent(ctx: Context) -> Any:
    try:
        return await ctx.wait_for_job(ctx.input["child"])
    except JobFailed:
        return "failed"


def test_a_job_that_waits_for_another_goes_on_wherever_the_worker_dies() -> None:
    app: App = app_of(two_at_once, type="child")
    app.job("parent")(parent)
    for crash in crash_points():
        with Bench(app, crash=crash) as bench:
            child = bench.submit("child", delay_seconds=60)
            job = bench.submit("parent", {"child": child.id}).run()
            assert job.status == "waiting"
            bench.advance(600)
            assert (child.run().status, job.run().result) == ("succeeded", "done")
            assert sorted(call.key for call in bench.happened) == ["a", "b"]
