"""Waits of a job that begins anew: it gets no event twice, and none is lost between its lives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.bench_apps import app_of

from streams import Context
from streams.testing import Bench, crash_points

HOUR = 3_600


def done(idempotency_key: str) -> dict[str, Any]:
    return {}


def subject(name: str) -> dict[str, str]:
    return {"subject": name}


async def one_event_in_each_life(ctx: Context) -> Any:
    event = await ctx.wait_for_event(subject("a"))
    seen = [*ctx.input, event.event_type]
    if len(seen) < 3:
        ctx.continue_as_new(seen)
    return seen


async def two_events_in_each_life(ctx: Context) -> Any:
    seen = list(ctx.input)
    for _ in range(2):
        _, event = await ctx.first(end=ctx.sleep(9 * HOUR), event=ctx.wait_for_event(subject("a")))
        seen.append(event.event_type)
    if len(seen) < 6:
        ctx.continue_as_new(seen)
    return seen


def deliver(bench: Bench, *numbers: int) -> None:
    for number in numbers:
        bench.deliver(f"e{number}", key=str(number), subject="a")


@pytest.mark.parametrize(
    ("handler", "events"), [(one_event_in_each_life, 3), (two_events_in_each_life, 6)]
)
def test_a_job_that_begins_anew_gets_each_event_once(handler: Any, events: int) -> None:
    for crash in crash_points():
        with Bench(app_of(handler), crash=crash) as bench:
            job = bench.submit("job", [], key="1").run()
            deliver(bench, *range(events))
            assert job.run().result == [f"e{number}" for number in range(events)]


def test_it_waits_on_though_it_was_made_longer_ago_than_events_are_kept(tmp_path: Path) -> None:
    topology = tmp_path / "topology.yaml"
    topology.write_text('routes: []\njob_types:\n  - {name: job, waits_for: [{event_type: "*"}]}\n')
    with Bench(app_of(one_event_in_each_life), topology=topology) as bench:
        job = bench.submit("job", []).run()
        for number in range(3):
            assert job.status == "waiting"
            bench.advance(2 * HOUR)
            deliver(bench, number)
            job.run()
        assert job.result == ["e0", "e1", "e2"]


async def beside_a_task(ctx: Context) -> Any:
    stop = asyncio.ensure_future(ctx.wait_for_event(subject("stop"), name="stop"))
    await ctx.wait_for_event(subject("a"))
    await ctx.effect("mail", done, key="k")
    if ctx.input == 1:
        ctx.continue_as_new(2)
    return (await stop).event_type


def test_an_event_that_the_last_run_was_not_given_is_left_for_the_next_life() -> None:
    with Bench(app_of(beside_a_task)) as bench:
        bench.fake("mail", returns={}, takes=20)
        job = bench.submit("job", 1).run()
        deliver(bench, 1)
        assert job.status == "running"
        bench.deliver("stopped", subject="stop")
        job.run()
        assert (job.record.continuations, job.status) == (1, "waiting")
        deliver(bench, 2)
        assert job.run().result == "stopped"
