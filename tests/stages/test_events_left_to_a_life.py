"""What waits for events leave to the next life of a job that begins anew."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support.bench_apps import app_of
from support.waiter import Waiter, event_wait

from streams import Context
from streams.dispatcher import carried_places
from streams.dispatcher.parts import waits
from streams.testing import Bench

HOUR = 3_600


def done(idempotency_key: str) -> dict[str, Any]:
    return {}


async def one_request_in_each_life(ctx: Context) -> Any:
    n = ctx.input
    wait = await ctx.listen({"subject": f"request-{n}"})
    await wait
    return ctx.continue_as_new(n + 1)


def test_a_job_without_an_end_has_no_history_of_its_former_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried_places, "MOST_CARRIED", 3)
    topology = tmp_path / "topology.yaml"
    topology.write_text("routes: []\njob_types:\n  - {name: job}\n")
    with Bench(app_of(one_request_in_each_life), topology=topology) as bench:
        job = bench.submit("job", 0, key="1").run()
        sizes = []
        for n in range(12):
            bench.deliver("answer", key=str(n), subject=f"request-{n}")
            job.run()
            bench.advance(2 * 3600)
            sizes.append(len(job._behind.pipeline.steps(job.record)))
        assert job.record.continuations == 12
        assert max(sizes) < 5, sizes


async def listens_twice(ctx: Context) -> Any:
    match = {"subject": "a"}
    if ctx.input == 1:
        await ctx.listen(match)
        await ctx.effect("mail", done, key="k")
        await ctx.listen(match)
        await ctx.effect("mail", done, key="l")
        return ctx.continue_as_new(2)
    return (await ctx.wait_for_event(match, timeout=3600)).event_type


def test_the_first_of_two_listens_of_a_name_leaves_the_event_that_no_run_was_given() -> None:
    with Bench(app_of(listens_twice)) as bench:
        bench.fake("mail", returns={}, takes=20)
        job = bench.submit("job", 1).pause_in("mail")
        bench.deliver("e1", key="1", subject="a")
        job.run()
        bench.advance(1)
        assert job.run().result == "e1"


async def beside_a_task(ctx: Context) -> Any:
    stop = asyncio.ensure_future(ctx.wait_for_event({"subject": "stop"}, name="stop"))
    await ctx.wait_for_event({"subject": "a"})
    await ctx.effect("mail", done, key="k")
    if ctx.input == 1:
        ctx.continue_as_new(2)
    return (await stop).event_type


def test_an_event_that_no_run_was_given_is_left_however_old_the_job_is(tmp_path: Path) -> None:
    topology = tmp_path / "topology.yaml"
    topology.write_text('routes: []\njob_types:\n  - {name: job, waits_for: [{event_type: "*"}]}\n')
    with Bench(app_of(beside_a_task), topology=topology) as bench:
        bench.fake("mail", returns={}, takes=20)
        job = bench.submit("job", 1).run()
        bench.advance(2 * HOUR)
        bench.deliver("e1", key="1", subject="a")
        assert job.status == "running"
        bench.deliver("stopped", subject="stop")
        job.run()
        assert (job.record.continuations, job.status) == (1, "waiting")
        bench.deliver("e2", key="2", subject="a")
        job.run()
        assert (job.status, job.result, job.error) == ("succeeded", "stopped", None)


async def beside_a_person(ctx: Context) -> Any:
    stop = asyncio.ensure_future(ctx.wait_for_event({"subject": "stop"}, name="stop"))
    if ctx.input == 0:
        return (await stop).event_type
    await ctx.approval("go on")
    await ctx.effect("mail", done, key="k")
    if ctx.input == 1:
        ctx.continue_as_new(2)
    return (await stop).event_type


def test_an_event_that_is_offered_after_a_later_end_was_given_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waits, "AT_ONCE", 1)
    with Bench(app_of(beside_a_person)) as bench:
        bench.fake("mail", returns={}, takes=20)
        before, job = bench.submit("job", 0).run(), bench.submit("job", 1).run()
        bench.deliver("stopped", subject="stop")
        assert (before.status, job.record.waits[0].kind) == ("succeeded", "event")
        job.approve("go on").run()
        assert (job.record.continuations, job.status) == (1, "waiting")
        job.approve("go on").run()
        assert (job.status, job.result) == ("succeeded", "stopped")


AHEAD_MS = 900
"""A broker's clock may be so far ahead."""


@pytest.mark.parametrize("anew", [False, True])
def test_a_wait_from_now_on_gets_no_event_of_the_life_before(anew: bool) -> None:
    at = Waiter()
    lease = at.job()
    at.park(lease, event_wait(since="now"))
    at.reply("t1", at=at.desk.driver.now + AHEAD_MS)
    again = at.go_on(lease.job_id)  # 0.2 s later
    given = tuple(left.id for left in again.steps)
    assert "answer" in given
    if anew:
        body = dataclasses.replace(at.ended(again), status="continued", result="{}", given=given)
        at.desk.command(body, again.job_id, again.epoch)
        again = at.go_on(lease.job_id)
        assert again.incarnation == 2
        at.park(again, event_wait(since="now"))
    else:
        at.park(again, event_wait(id_="answer#2", since="now"))
    assert at.status(again) == "waiting"
