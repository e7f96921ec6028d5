"""Jobs that read streams of events by random waits: each event once, in order, in all their lives.

Worker and dispatcher die again and again, and events are offered to a few waits at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, get_args

import pytest
from support.bench_apps import app_of

from streams import Context, Retry, WaitTimeout
from streams.dispatcher.parts import waits
from streams.runtime.memory_broker import CrashPoint
from streams.serde.job_states import TERMINAL
from streams.testing import Bench, Job
from streams.testing.pipeline_in_memory import PipelineInMemory

STORIES = 5
ACTS, JOBS = 60, 2
EVENTS = [f"e{number}" for number in range(8)]
MATCH = {"subject": "a"}


def done(idempotency_key: str) -> dict[str, Any]:
    return {}


async def plainly(ctx: Context, name: str, random: Random) -> Any:
    return await ctx.wait_for_event(MATCH, name=name)


async def for_a_while(ctx: Context, name: str, random: Random) -> Any:
    try:
        return await ctx.wait_for_event(MATCH, name=name, timeout=random.choice([0, 5, 30]))
    except WaitTimeout:
        return None


async def around_an_effect(ctx: Context, name: str, random: Random) -> Any:
    wait = await ctx.listen(MATCH, since="job", name=name)
    await ctx.effect("mail", done, key=f"{name}-{random.random()}")
    return await wait


async def beside_a_time(ctx: Context, name: str, random: Random) -> Any:
    nap = ctx.sleep(random.choice([0, 1, 5, 30]), name=f"nap {name}")
    _, event = await ctx.first(event=ctx.wait_for_event(MATCH, name=name), nap=nap)
    return event


async def again_after_a_time(ctx: Context, name: str, random: Random) -> Any:
    wait = ctx.wait_for_event(MATCH, name=name)
    for seconds in random.choices([0, 1, 5], k=2):
        _, event = await ctx.first(nap=ctx.sleep(seconds, name=f"nap {name}"), event=wait)
        if event is not None:
            return event
    return None


WAYS: list[Callable[[Context, str, Random], Awaitable[Any]]] = [
    plainly,
    for_a_while,
    around_an_effect,
    beside_a_time,
    again_after_a_time,
]


async def reads(ctx: Context, name: str, seen: list[str]) -> None:
    """Read some events of a stream, each in another way."""
    random = Random(f"{ctx.input['seed']} {ctx.input['life']} {name}")
    async with ctx.branch(name):
        for number in range(random.randint(1, 3)):
            if seen == EVENTS:
                return
            event = await random.choice(WAYS)(ctx, name, random)
            if event is not None:
                seen.append(event.event_type)
            if random.random() < 0.4:
                await ctx.effect("mail", done, key=f"{name}-{number}")


async def reads_two_streams(ctx: Context) -> Any:
    seen = {name: list(events) for name, events in ctx.input["seen"].items()}
    await asyncio.gather(*(reads(ctx, *stream) for stream in seen.items()))
    if any(events != EVENTS for events in seen.values()):
        ctx.continue_as_new(ctx.input | {"seen": seen, "life": ctx.input["life"] + 1})
    return seen


def play(bench: Bench, pipeline: PipelineInMemory, random: Random) -> None:
    """Deliver all events, while time passes and processes die."""
    unsent = EVENTS[::-1]

    def deliver() -> None:
        if unsent:
            bench.deliver(event := unsent.pop(), key=event, subject="a")

    acts: list[Callable[[], object]] = [
        *[deliver] * 2,
        *[lambda: bench.advance(random.choice([0.05, 1, 7, 31]))] * 2,
        lambda: random.random() < 0.3 and bench.crash_worker(),
        lambda: pipeline._driver.restart("dispatcher", keep_state=random.random() < 0.5),
        lambda: pipeline._driver.crash("dispatcher", random.choice(get_args(CrashPoint))),
    ]
    for _ in range(ACTS):
        random.choice(acts)()
    while unsent:
        deliver()


def finish(bench: Bench, jobs: list[Job]) -> None:
    for _ in range(60):
        if all(job.status in TERMINAL for job in jobs):
            return
        bench.advance(20)


@pytest.mark.parametrize("seed", range(STORIES))
def test_each_stream_has_each_event_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(waits, "AT_ONCE", random.choice([1, 2, 200]))
    monkeypatch.setattr(waits, "_LOOKED_AT", random.choice([1, 3, 1_000]))
    app = app_of(reads_two_streams, retry=Retry(max_attempts=50, backoff=(1,)))
    app.tool("mail", key_lifetime=86_400)
    with Bench(app, patience=120) as bench:
        bench.fake("mail", returns={}, takes=random.choice([0, 1, 6]))
        begin = {"seen": {"x": [], "y": []}, "life": 0}
        keys = [f"{seed}/{number}" for number in range(JOBS)]
        jobs = [bench.submit("job", begin | {"seed": key}, key=key) for key in keys]
        play(bench, bench._behind.pipeline, random)
        finish(bench, jobs)
        assert [(job.status, job.result) for job in jobs] == [
            ("succeeded", {"x": EVENTS, "y": EVENTS})
        ] * JOBS, [job.error for job in jobs]
