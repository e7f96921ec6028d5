"""A wait that several tasks await: each of its groups ends by itself, and no task loses any."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from support.bench_apps import app_of

from streams import Context
from streams.testing import Bench

HOUR = 3_600


def done(idempotency_key: str) -> dict[str, Any]:
    return {}


def subject(name: str) -> dict[str, str]:
    return {"subject": name}


async def each_with_a_common_end(ctx: Context, task: Any) -> Any:
    end = ctx.sleep(HOUR)
    return await asyncio.gather(*(task(ctx, name, end) for name in "ab"))


async def asks_two_people(ctx: Context, name: str, end: Any) -> str:
    async with ctx.branch(name):
        came, _ = await ctx.first(end=end, decision=ctx.approval(name, quorum=2))
        return came


async def both_ask(ctx: Context) -> Any:
    return await each_with_a_common_end(ctx, asks_two_people)


def test_what_one_task_asks_of_people_stands_while_another_goes_on() -> None:
    with Bench(app_of(both_ask)) as bench:
        job = bench.submit("job").run()
        job.approve("b", by="ann")
        for person in ("ann", "bob"):
            job.approve("a", by=person).run()
        assert (job.status, sorted(job.waits)) == ("waiting", ["b/approval[b]", "sleep"])
        job.approve("b", by="bob").run()
        assert job.result == ["decision", "decision"]


async def from_now_on(ctx: Context, name: str, end: Any) -> str:
    async with ctx.branch(name):
        event = ctx.wait_for_event(subject(name), since="now")
        came, _ = await ctx.first(end=end, event=event)
        await ctx.effect("mail", done, key=name)
        return came


async def both_from_now_on(ctx: Context) -> Any:
    return await each_with_a_common_end(ctx, from_now_on)


def test_an_event_that_one_task_waits_for_is_not_lost_while_another_works(tmp_path: Path) -> None:
    topology = tmp_path / "topology.yaml"
    topology.write_text("routes: []\njob_types:\n  - name: job\n")
    with Bench(app_of(both_from_now_on), topology=topology) as bench:
        bench.fake("mail", returns={}, takes=20)
        job = bench.submit("job").run()
        bench.deliver("e1", subject="a", key="1")
        assert job.status == "running"
        bench.deliver("e2", subject="b", key="2")
        assert job.run().result == ["event", "event"]


async def until_the_end(ctx: Context, name: str, end: Any) -> int:
    async with ctx.branch(name):
        for number in range(9):
            came, _ = await ctx.first(end=end, event=ctx.wait_for_event(subject(name)))
            if came == "end":
                return number
            await ctx.effect("mail", done, key=f"{name}{number}")
        return 9


async def both_until_the_end(ctx: Context) -> Any:
    return await each_with_a_common_end(ctx, until_the_end)


def test_a_common_end_stays_when_it_was_though_every_task_had_gone_on() -> None:
    with Bench(app_of(both_until_the_end)) as bench:
        bench.fake("mail", returns={}, takes=20)
        job, begun = bench.submit("job").run(), bench.seconds
        bench.advance(1_000)
        bench.deliver("e1", subject="a", key="1")
        bench.deliver("e2", subject="b", key="2")  # the end is in no group any more
        assert job.run().status == "waiting"
        bench.advance(begun + HOUR + 1 - bench.seconds)
        assert job.run().result == [1, 1]


async def all_of_what_another_takes_the_first(ctx: Context) -> Any:
    common = ctx.wait_for_event(subject("common"))
    late = ctx.sleep(HOUR)
    both = ctx.all(common, ctx.wait_for_event(subject("other"), name="other"))
    return await asyncio.gather(ctx.first(common=common, late=late), both)


def test_a_wait_that_a_first_has_dropped_is_still_one_of_all() -> None:
    with Bench(app_of(all_of_what_another_takes_the_first)) as bench:
        job = bench.submit("job").run()
        bench.advance(HOUR + 1)
        job.run()
        bench.deliver("e1", subject="other", key="1")
        assert (job.run().status, job.record.resumes) == ("waiting", 1)
        bench.deliver("e2", subject="common", key="2")
        assert job.run().status == "succeeded"
        assert job.record.resumes == 2


async def fifty_tasks_with_a_common_end(ctx: Context) -> Any:
    end = ctx.sleep(HOUR)
    waits = [ctx.wait_for_event(subject(str(n)), key=str(n)) for n in range(50)]
    firsts = [ctx.first(end=end, event=wait) for wait in waits]
    return [name for name, _ in await asyncio.gather(*firsts)]


def test_one_end_of_many_tasks_ends_all_of_them_at_once() -> None:
    with Bench(app_of(fifty_tasks_with_a_common_end)) as bench:
        job = bench.submit("job").run()
        assert len(job.waits) == 51
        bench.advance(HOUR + 1)
        assert (job.run().result, job.record.resumes) == (["end"] * 50, 1)
