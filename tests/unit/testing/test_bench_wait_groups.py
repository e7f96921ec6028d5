"""Several waits together: which one ended first, and where the dropped ones go on."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.bench_apps import app_of

from streams import Context, JobFailed, WaitTimeout
from streams.testing import Bench

HOUR = 3_600


def done(idempotency_key: str) -> dict[str, Any]:
    return {}


def subject(name: str) -> dict[str, str]:
    return {"subject": name}


def deliver(bench: Bench, *subjects: str) -> None:
    for number, name in enumerate(subjects):
        bench.deliver(f"e{number}", key=f"{name} {bench.seconds}", subject=name)


async def listens_to_both(ctx: Context) -> Any:
    a, b = await ctx.listen(subject("a")), await ctx.listen(subject("b"))
    await ctx.effect("mail", done, key="k")
    return (await ctx.first(a=a, b=b))[0]


async def asks_for_both(ctx: Context) -> Any:
    await ctx.effect("mail", done, key="k")
    return (await ctx.first(a=ctx.wait_for_event(subject("a")), b=by_itself(ctx)))[0]


def by_itself(ctx: Context) -> Any:
    return ctx.wait_for_event(subject("b"), consume="one")


async def listens_to_one(ctx: Context) -> Any:
    b = await ctx.listen(subject("b"))
    await ctx.effect("mail", done, key="k")
    return (await ctx.first(a=ctx.sleep(0), b=b))[0]


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("handler", [listens_to_both, asks_for_both])
def test_the_first_of_two_that_have_ended_is_the_one_that_did_first(
    handler: Any, order: str
) -> None:
    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").pause_in("mail")
        deliver(bench, *order)
        assert job.run().result == order[0]


def test_what_ended_before_a_wait_begins_comes_first() -> None:
    with Bench(app_of(listens_to_one)) as bench:
        job = bench.submit("job").pause_in("mail")
        deliver(bench, "b")
        assert job.run().result == "b"


async def listens_to_b_alone(ctx: Context) -> Any:
    b = await ctx.listen(subject("b"), name="b")
    await ctx.effect("mail", done, key="k")
    return (await ctx.first(b=b, a=ctx.wait_for_event(subject("a"))))[0]


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_an_earlier_event_comes_first_though_another_ended_what_the_job_listens_to(
    order: str,
) -> None:
    with Bench(app_of(listens_to_b_alone)) as bench:
        job = bench.submit("job").pause_in("mail")
        deliver(bench, *order)
        assert job.run().result == order[0]


async def a_loop_beside_what_it_listens_to(ctx: Context) -> list[str]:
    stop, seen = await ctx.listen(subject("stop"), name="stop"), []
    await ctx.effect("mail", done, key="k")
    for _ in range(2):
        name, event = await ctx.first(stop=stop, event=ctx.wait_for_event(subject("a")))
        seen.append(event.event_type)
        if name == "stop":
            stop = ctx.sleep(HOUR)
    return seen


def test_an_event_that_another_wait_came_before_is_not_lost() -> None:
    with Bench(app_of(a_loop_beside_what_it_listens_to)) as bench:
        job = bench.submit("job").pause_in("mail")
        deliver(bench, "stop", "a")
        assert job.run().result == ["e0", "e1"]


async def one_has_failed_and_another_is_late(ctx: Context) -> str:
    late = await ctx.listen(subject("a"), timeout=2 * HOUR)
    try:
        await ctx.all(late, ctx.wait_for_job(ctx.input["child"]))
    except (JobFailed, WaitTimeout) as error:
        told = type(error).__name__
    await ctx.sleep(3 * HOUR)
    return told


def test_of_several_errors_the_first_stays_the_one_that_is_raised() -> None:
    async def fails(ctx: Context) -> None:
        await ctx.sleep(HOUR)
        raise ValueError("no")

    app = app_of(one_has_failed_and_another_is_late)
    app.job("child")(fails)
    with Bench(app) as bench:
        child = bench.submit("child")
        job = bench.submit("job", {"child": child.id}).run()
        bench.advance(4 * HOUR)
        child.run()
        bench.advance(4 * HOUR)
        assert job.run().result == "JobFailed"


async def within_an_hour(ctx: Context) -> list[str]:
    end: Any = ctx.sleep(HOUR)
    seen: list[str] = []
    while True:
        name, event = await ctx.first(end=end, event=ctx.wait_for_event(subject("a")))
        if name == "end":
            return seen
        seen.append(event.event_type)


def test_a_time_that_is_used_again_ends_when_it_first_would_have() -> None:
    with Bench(app_of(within_an_hour)) as bench:
        job = bench.submit("job").run()
        for minutes in (30, 25):
            bench.advance(minutes * 60)
            deliver(bench, "a")
            assert job.run().status == "waiting"
        bench.advance(5 * 60 + 1)
        assert job.run().result == ["e0", "e0"]


async def works_for_ten_minutes(ctx: Context) -> list[str]:
    end, seen = ctx.sleep(600), list[str]()
    for number in range(9):
        await ctx.effect("mail", done, key=str(number))
        name, event = await ctx.first(end=end, event=ctx.wait_for_event(subject("a")))
        if name == "end":
            break
        seen.append(event.event_type)
    return [*seen, name, (await ctx.wait_for_event(subject("a"))).event_type]


async def waits_for_ten_minutes(ctx: Context) -> list[str]:
    end, seen = ctx.wait_for_event(subject("b"), timeout=600), list[str]()
    with suppress(WaitTimeout):
        for number in range(9):
            await ctx.effect("mail", done, key=str(number))
            _, event = await ctx.first(end=end, event=ctx.wait_for_event(subject("a")))
            seen.append(event.event_type)
    return [*seen, "end", (await ctx.wait_for_event(subject("a"))).event_type]


@pytest.mark.parametrize("handler", [works_for_ten_minutes, waits_for_ten_minutes])
def test_a_time_that_was_over_before_an_event_comes_first_and_the_event_is_left(
    handler: Any,
) -> None:
    with Bench(app_of(handler)) as bench:
        job = bench.submit("job")
        for number in range(4):
            job.pause_in(f"mail/{number}")
            bench.advance(250)
            bench.deliver(f"e{number}", key=str(number), subject="a")
        assert job.run().result == ["e0", "e1", "e2", "end", "e3"]


async def shares_what_it_waits_for(ctx: Context, begun: bool) -> Any:
    """One task asks again for a time that is over; another one shares the event after it."""
    shared = ctx.wait_for_event(subject("a"))

    async def works() -> list[str]:
        end = ctx.sleep(600)
        await ctx.first(end=end, go=ctx.wait_for_event(subject("go"), name="go"))
        await ctx.effect("mail", done, key="k")
        return [(await ctx.first(event=shared, end=end))[0]]

    async def waits() -> list[str]:
        if not begun:
            await ctx.wait_for_event(subject("go"), name="went")
            await ctx.effect("mail", done, key="l")
        return [event.event_type for event in await ctx.all(shared, other)]

    other = ctx.wait_for_event(subject("b"), name="b")
    return await asyncio.gather(works(), waits())


async def that_has_begun(ctx: Context) -> Any:
    return await shares_what_it_waits_for(ctx, begun=True)


async def that_begins(ctx: Context) -> Any:
    return await shares_what_it_waits_for(ctx, begun=False)


@pytest.mark.parametrize("handler", [that_has_begun, that_begins])
def test_a_time_that_was_over_comes_first_though_another_task_awaits_the_event_too(
    handler: Any,
) -> None:
    with Bench(app_of(handler)) as bench:
        bench.fake("mail", returns={}, takes=250)
        job = bench.submit("job").run()
        bench.advance(400)
        deliver(bench, "go")
        bench.advance(220)
        assert job.status == "running"
        deliver(bench, "a")
        job.run()
        deliver(bench, "b")
        assert job.run().result == [["end"], ["e0", "e0"]]


async def answered_in_time(ctx: Context) -> list[str]:
    answer, seen = ctx.wait_for_event(subject("a"), timeout=200), list[str]()
    await ctx.first(answer=answer, time=ctx.sleep(0))
    await ctx.effect("mail", done, key="k")
    try:
        await answer
    except WaitTimeout:
        seen.append("late")
    return [*seen, (await ctx.wait_for_event(subject("a"))).event_type]


def test_an_event_after_the_time_of_a_wait_that_is_asked_again_is_left_for_the_next() -> None:
    with Bench(app_of(answered_in_time)) as bench:
        job = bench.submit("job").pause_in("mail")
        bench.advance(250)
        deliver(bench, "a")
        assert job.run().result == ["late", "e0"]


async def reminds_within_an_hour(ctx: Context) -> int:
    answer = ctx.wait_for_event(subject("a"), timeout=HOUR)
    for number in range(10):
        try:
            await ctx.first(answer=answer, time=ctx.sleep(25 * 60))
        except WaitTimeout:
            return number
    return -1


def test_so_does_a_timeout() -> None:
    with Bench(app_of(reminds_within_an_hour)) as bench:
        job = bench.submit("job").run()
        for _ in range(3):
            bench.advance(25 * 60 + 1)
            job.run()
        assert job.result == 2


async def answered_or_late(ctx: Context) -> str:
    waits = {"answer": ctx.wait_for_event(subject("a")), "late": ctx.sleep(HOUR)}
    name, _ = await ctx.first(**waits)
    await ctx.sleep(HOUR)
    return name


async def with_another_name(ctx: Context) -> str:
    name, _ = await ctx.first(answer=ctx.wait_for_event(subject("a")), time=ctx.sleep(HOUR))
    await ctx.sleep(HOUR)
    return name


async def with_another_wait(ctx: Context) -> str:
    late = ctx.sleep(HOUR, name="late")
    name, _ = await ctx.first(answer=ctx.wait_for_event(subject("a")), late=late)
    return name


@pytest.mark.parametrize(
    ("changed", "told", "drops", "ends"),
    [
        (with_another_name, "recorded first late, asked first of answer, time", ["first"], "time"),
        (with_another_wait, "recorded first late, asked first of answer, late", ["first"], None),
    ],
)
def test_the_first_of_other_waits_than_before_is_a_divergence(
    changed: Any, told: str, drops: list[str], ends: str | None
) -> None:
    with Bench(app_of(answered_or_late)) as bench:
        job = bench.submit("job").run()
        bench.advance(HOUR + 1)
        job.run()
        bench.deploy(app_of(changed))
        bench.advance(HOUR + 1)
        assert (job.run().status, job.error) == ("needs_review", f"HistoryDiverged: {told}")
        job.settle_steps(drop=drops).run()
        assert (job.result, job.status == "needs_review") == (ends, ends is None)


async def listens_and_reminds(ctx: Context) -> str:
    answer = await ctx.listen(subject("a"))
    for number in range(3):
        name, _ = await ctx.first(answer=answer, time=ctx.sleep(HOUR))
        if name == "answer":
            return f"answered after {number}"
    return "no answer"


def test_what_a_job_listens_to_is_kept_while_another_wait_comes_first(tmp_path: Path) -> None:
    topology = tmp_path / "topology.yaml"
    topology.write_text("routes: []\njob_types:\n  - name: job\n")
    with Bench(app_of(listens_and_reminds), topology=topology) as bench:
        job = bench.submit("job").run()
        bench.disconnect()
        bench.advance(HOUR + 1)
        deliver(bench, "a")
        bench.connect()
        assert job.run().result == "answered after 1"


async def beside_a_tick(ctx: Context) -> list[str]:
    seen: list[str] = []
    while len(seen) < 2:
        event = asyncio.ensure_future(ctx.wait_for_event(subject("a")))
        tick = asyncio.ensure_future(ctx.sleep(HOUR))
        await asyncio.wait((event, tick), return_when=asyncio.FIRST_COMPLETED)
        event.cancel()
        tick.cancel()
        await asyncio.wait((event, tick))
        if not event.cancelled():
            seen.append(event.result().event_type)
    return seen


def test_the_wait_of_a_task_that_is_cancelled_is_dropped_and_no_event_is_missed() -> None:
    with Bench(app_of(beside_a_tick)) as bench:
        job = bench.submit("job").run()
        for _ in range(2):
            bench.advance(HOUR + 1)
            assert len(job.run().waits) == 2
            deliver(bench, "a")
            job.run()
        assert job.result == ["e0", "e0"]


async def all_with_one_in_common(ctx: Context) -> None:
    shared = ctx.wait_for_event(subject("a"))
    others = [ctx.wait_for_event(subject(name), name=name) for name in "bc"]
    await asyncio.gather(*(ctx.all(shared, other) for other in others))


def test_of_groups_that_share_a_wait_each_goes_on_once() -> None:
    with Bench(app_of(all_with_one_in_common)) as bench:
        job = bench.submit("job").run()
        for name in "acb":
            deliver(bench, name)
            job.run()
        assert (job.status, job.record.resumes) == ("succeeded", 2)


async def in_two_groups(ctx: Context) -> None:
    shared = ctx.wait_for_event(subject("a"))

    async def one() -> None:
        await ctx.first(self=shared, late=ctx.sleep(HOUR))
        await ctx.effect("mail", done, key="k")

    async def two() -> None:
        await ctx.all(shared, ctx.wait_for_event(subject("b"), name="b"))

    await asyncio.gather(one(), two())


def test_a_wait_in_two_groups_ends_both() -> None:
    with Bench(app_of(in_two_groups)) as bench:
        job = bench.submit("job").run()
        deliver(bench, "a")
        job.run()
        assert ([call.key for call in job.calls], job.status) == (["k"], "waiting")
        deliver(bench, "b")
        assert job.run().status == "succeeded"


@pytest.mark.parametrize("consume", ["all", "one"])
def test_of_two_that_end_while_another_task_works_the_second_is_left_for_the_next(
    consume: Any,
) -> None:
    async def works(ctx: Context) -> None:
        await ctx.wait_for_event(subject("go"), name="go")
        await ctx.effect("mail", done, key="k")

    async def loop(ctx: Context) -> list[str]:
        return [(await ctx.first(a=one(ctx, "a"), b=one(ctx, "b")))[0] for _ in range(2)]

    def one(ctx: Context, name: str) -> Any:
        return ctx.wait_for_event(subject(name), name=name, consume=consume)

    async def both(ctx: Context) -> Any:
        return (await asyncio.gather(works(ctx), loop(ctx)))[1]

    with Bench(app_of(both)) as bench:
        bench.fake("mail", returns={}, takes=20)
        job = bench.submit("job").run()
        deliver(bench, "go", "b", "a")
        assert job.run().result == ["b", "a"]


async def beside_a_task_that_waits(ctx: Context) -> Any:
    task = asyncio.ensure_future(ctx.wait_for_event(subject("a")))
    await ctx.sleep(HOUR)
    return (await task).event_type


def test_a_task_that_a_park_stops_is_no_error_that_nobody_has_seen(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Bench(app_of(beside_a_task_that_waits)) as bench:
        job = bench.submit("job").run()
        deliver(bench, "a")
        assert len(job.run().waits) == 1
        bench.advance(HOUR + 1)
        assert job.run().result == "e0"
        gc.collect()
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []
