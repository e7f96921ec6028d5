"""Waits in loops see each event once and miss none; what cannot be waited for ends the job."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streams import App, Context, WaitTimeout
from streams.testing import Bench

MESSAGE = {"subject": "t1"}


def app_of(handler: Any) -> App:
    app = App("support")
    app.job("job")(handler)
    return app


def done(idempotency_key: str) -> dict[str, Any]:
    return {}


def deliver(bench: Bench, name: str, subject: str = "t1") -> None:
    bench.deliver(name, key=name, subject=subject)


async def with_timeouts(ctx: Context) -> list[str]:
    seen = []
    for _ in range(4):
        try:
            seen.append((await ctx.wait_for_event(MESSAGE, timeout=60)).event_type)
        except WaitTimeout:
            seen.append("late")
    return seen


async def with_ticks(ctx: Context) -> list[str]:
    seen = []
    for _ in range(4):
        name, event = await ctx.first(late=ctx.sleep(60), event=ctx.wait_for_event(MESSAGE))
        seen.append(name if event is None else event.event_type)
    return seen


@pytest.mark.parametrize("handler", [with_timeouts, with_ticks])
def test_each_event_is_seen_once_though_times_are_over_between_them(handler: Any) -> None:
    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        for name in ("e1", "e2"):
            deliver(bench, name)
            job.run()
            bench.advance(61)
            job.run()
        assert job.result == ["e1", "late", "e2", "late"]


async def by_turns(ctx: Context) -> list[str]:
    subjects = ("a", "b", "a", "b")
    return [(await ctx.wait_for_event({"subject": each})).event_type for each in subjects]


def test_waits_of_one_name_for_different_events_take_turns() -> None:
    with Bench(app_of(by_turns)) as bench:
        job = bench.submit("job").run()
        for name, subject in (("e1", "a"), ("e2", "b"), ("e3", "a"), ("e4", "b")):
            deliver(bench, name, subject)
            job.run()
        assert job.result == ["e1", "e2", "e3", "e4"]


async def for_hours(ctx: Context) -> Any:
    for number in range(5):
        half_an_hour = ctx.sleep(1800)
        _, event = await ctx.first(event=ctx.wait_for_event(MESSAGE), time=half_an_hour)
        if event is not None:
            return event.event_type
        await ctx.effect("mail", done, key=str(number))
    return None


async def for_hours_again(ctx: Context) -> Any:
    message = ctx.wait_for_event(MESSAGE)
    for number in range(5):
        _, event = await ctx.first(event=message, time=ctx.sleep(1800))
        if event is not None:
            return event.event_type
        await ctx.effect("mail", done, key=str(number))
    return None


@pytest.mark.parametrize("handler", [for_hours, for_hours_again])
def test_a_wait_that_was_dropped_goes_on_where_it_had_got_to(handler: Any) -> None:
    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        for _ in range(3):
            bench.advance(1801)
            job.run()
        bench.advance(1790)
        job.pause_in("mail/3")
        deliver(bench, "e1")
        assert job.run().result == "e1"


async def polls_for_hours(ctx: Context) -> Any:
    message = ctx.wait_for_event(MESSAGE, timeout=12 * 3600)
    for _ in range(4):
        for seconds in (1800, 0):
            _, event = await ctx.first(event=message, time=ctx.sleep(seconds))
            if event is not None:
                return event.event_type
    return None


def test_a_wait_that_is_dropped_as_it_begins_keeps_where_it_had_got_to() -> None:
    with Bench(app_of(polls_for_hours)) as bench:
        job = bench.submit("job").run()
        for _ in range(3):
            bench.advance(1801)
            job.run()
        deliver(bench, "e1")
        assert job.run().result == "e1"


async def polls_and_naps(ctx: Context) -> Any:
    for _ in range(6):
        _, event = await ctx.first(event=ctx.wait_for_event(MESSAGE), at_once=ctx.sleep(0))
        if event is not None:
            return event.event_type
        await ctx.sleep(1800, name="nap")
    return None


def test_a_loop_that_only_looks_finds_an_event_after_hours() -> None:
    with Bench(app_of(polls_and_naps)) as bench:
        job = bench.submit("job").run()
        for _ in range(4):
            bench.advance(1801)
            job.run()
        deliver(bench, "e1")
        bench.advance(1801)
        assert job.run().result == "e1"


async def listens(ctx: Context) -> list[str]:
    seen = []
    for number in range(3):
        answer = await ctx.listen(MESSAGE)
        await ctx.effect("mail", done, key=str(number))
        seen.append((await answer).event_type)
    return seen


def test_a_loop_listens_without_a_declaration(tmp_path: Path) -> None:
    topology = tmp_path / "topology.yaml"
    topology.write_text("routes: []\njob_types:\n  - name: job\n")
    with Bench(app_of(listens), topology=topology) as bench:
        job = bench.submit("job")
        for number in range(3):
            job.pause_in(f"mail/{number}")
            deliver(bench, f"e{number}")
        assert job.run().result == ["e0", "e1", "e2"]


async def in_a_step(ctx: Context) -> Any:
    async def waits() -> None:
        await ctx.sleep(60)

    return await ctx.step("step", waits)


async def in_an_effect(ctx: Context) -> Any:
    async def waits(idempotency_key: str) -> None:
        await ctx.sleep(60)

    return await ctx.effect("mail", waits, key="a")


async def listens_in_a_step(ctx: Context) -> None:
    async def listens() -> None:
        await ctx.listen(MESSAGE)

    await ctx.step("listen", listens)


async def for_itself(ctx: Context) -> None:
    await ctx.wait_for_job(ctx.job_id)


async def for_each_other(ctx: Context) -> Any:
    other = ctx.input.get("other") or (await ctx.wait_for_event(MESSAGE)).attributes["other"]
    return await ctx.wait_for_job(other, timeout=ctx.input.get("timeout"))


@pytest.mark.parametrize(
    ("timeout", "ends"), [(None, ["failed", "failed"]), (60, ["waiting", "waiting"])]
)
def test_a_circle_of_jobs_without_a_timeout_is_refused(timeout: Any, ends: list[str]) -> None:
    with Bench(app_of(for_each_other)) as bench:
        jobs = [bench.submit("job", {"timeout": timeout}, key="0").run()]
        for number in range(1, 3):
            jobs.append(bench.submit("job", {"other": jobs[-1].id}, key=str(number)).run())
        bench.deliver("e", subject="t1", attributes={"other": jobs[-1].id})
        assert [job.run().status for job in (jobs[0], jobs[-1])] == ends
        assert timeout or "each would wait for ever" in (jobs[0].error or "")


async def for_a_surrogate(ctx: Context) -> None:
    await ctx.wait_for_event({"subject": "\ud800"})


async def for_no_match(ctx: Context) -> None:
    await ctx.wait_for_event("t1")  # type: ignore[arg-type]


async def for_a_long_text(ctx: Context) -> None:
    await ctx.wait_for_event({"subject": "t" * 3_000})


async def for_too_long(ctx: Context) -> None:
    await ctx.wait_for_event(MESSAGE | {"where": "[@,@][]" + "|[@,@][]" * 110})


async def for_too_many(ctx: Context) -> None:
    for number in range(101):
        await ctx.listen({"subject": str(number)})


async def for_much_text(ctx: Context) -> None:
    match = {"source": "s" * 2_000, "subject": "t" * 2_000}
    await ctx.all(*(ctx.wait_for_event(match) for _ in range(100)))


async def for_a_long_id(ctx: Context) -> None:
    await ctx.wait_for_job("j" * 300_000)


async def in_two_tasks(ctx: Context) -> None:
    async def one(subject: str, seconds: int) -> None:
        async def slow() -> None:
            await asyncio.sleep(seconds)

        await ctx.step(f"fetch {subject}", slow)
        await ctx.wait_for_event({"subject": subject})

    await asyncio.gather(one("a", 2), one("b", 1))


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        (in_a_step, "no step or effect waits"),
        (in_an_effect, "no step or effect waits"),
        (listens_in_a_step, "no step or effect waits"),
        (for_itself, "its own end"),
        (for_a_surrogate, "match: subject"),
        (for_no_match, "match: 't1'"),
        (for_a_long_text, "1 to 2,000 characters"),
        (for_too_long, "take too long"),
        (for_too_many, "100 are the most"),
        (for_much_text, "262,144 are the most"),
        (for_a_long_id, "262,144 are the most"),
        (in_two_tasks, "AmbiguousStep"),
    ],
)
def test_what_cannot_be_waited_for_ends_the_job(handler: Any, says: str) -> None:
    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert (job.status, job.attempts) == ("failed", 1)
        assert says in (job.error or "")


@pytest.mark.parametrize(
    "where", ["contains(['a', 'b'], attributes.x)", "{x: attributes.x, y: subject}.x", "!dedup"]
)
def test_a_condition_may_make_lists(where: str) -> None:
    async def waits(ctx: Context) -> str:
        return (await ctx.wait_for_event(MESSAGE | {"where": where})).subject or ""

    with Bench(app_of(waits)) as bench:
        job = bench.submit("job").run()
        bench.deliver("e", subject="t1", attributes={"x": "a"})
        assert job.run().result == "t1"


@pytest.mark.parametrize("first", [False, True])
def test_a_replay_asks_for_a_refused_wait_again(first: bool) -> None:
    async def waited(ctx: Context, wait: Any) -> Any:
        return (await ctx.first(wait=wait, late=ctx.sleep(60)))[1] if first else await wait

    async def refused(ctx: Context) -> None:
        since = datetime(2025, 1, 1, tzinfo=UTC)
        await waited(ctx, ctx.wait_for_event(MESSAGE, since=since))

    async def mended(ctx: Context) -> Any:
        return (await waited(ctx, ctx.wait_for_event(MESSAGE))).event_type

    with Bench(app_of(refused)) as bench:
        job = bench.submit("job").run()
        assert (job.error or "").startswith("WaitRefused")
        bench.deploy(app_of(mended))
        again = job.replay().run()
        deliver(bench, "e1")
        assert again.run().result == "e1"
