"""Calls of steps and waits that cannot mean what they say: each ends the job with what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from support.bench_apps import app_of

from streams import Context, WaitTimeout
from streams.testing import Bench

MESSAGE = {"subject": "t1"}


async def work() -> int:
    return 1


async def a_step_that_is_called(ctx: Context) -> None:
    coroutine = work()
    try:
        await ctx.step("draft", coroutine)  # type: ignore[arg-type]
    finally:
        coroutine.close()


async def the_first_of_a_listen(ctx: Context) -> None:
    listens = ctx.listen(MESSAGE)
    try:
        await ctx.first(answer=listens, time=ctx.sleep(60))  # type: ignore[arg-type]
    finally:
        listens.close()


async def all_of_a_list(ctx: Context) -> None:
    await ctx.all([ctx.sleep(60), ctx.sleep(90)])  # type: ignore[arg-type]


async def the_first_without_names(ctx: Context) -> None:
    await ctx.first(ctx.sleep(60), ctx.sleep(90))  # type: ignore[arg-type]


async def a_sleep_of_minutes(ctx: Context) -> None:
    await ctx.sleep(minutes=3)  # type: ignore[call-arg]


async def a_gather_without_a_key(ctx: Context) -> None:
    await ctx.gather([ctx.child("job")])  # type: ignore[call-arg]


async def a_gather_of_one_job(ctx: Context) -> None:
    await ctx.gather(ctx.child("job"), key="k")  # type: ignore[arg-type]


async def the_first_of_nothing(ctx: Context) -> None:
    await ctx.first()


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        (the_first_without_names, "PermanentError: first: 2 waits have no name: give each as"),
        (the_first_of_nothing, "PermanentError: first: no wait is given: give each as"),
        (a_sleep_of_minutes, "PermanentError: ctx.sleep() got an unexpected keyword argument"),
        (a_gather_without_a_key, "PermanentError: ctx.gather() missing 1 required keyword-only"),
        (a_gather_of_one_job, "PermanentError: gather: ChildCall("),
        (a_step_that_is_called, "PermanentError: step 'draft': <coroutine"),
        (the_first_of_a_listen, "PermanentError: first: answer=<coroutine"),
        (all_of_a_list, "PermanentError: all: 1=[Pending("),
    ],
)
def test_what_is_no_function_or_no_wait_is_told_at_once(handler: Any, says: str) -> None:
    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert (job.status, job.attempts) == ("failed", 1)
        assert (job.error or "").startswith(says)


@pytest.mark.parametrize("hours", [0, 14])
def test_a_wait_since_the_beginning_of_time_is_refused(hours: int) -> None:
    zone = timezone(timedelta(hours=hours))

    async def waits(ctx: Context) -> None:
        await ctx.wait_for_event(MESSAGE, since=datetime.min.replace(tzinfo=zone))

    with Bench(app_of(waits)) as bench:
        assert "not since 0001-01-01" in (bench.submit("job").run().error or "")


@pytest.mark.parametrize(
    ("until", "ends"),
    [
        (datetime(2020, 1, 1, tzinfo=UTC), "succeeded"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), "succeeded"),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))), "failed"),
        (datetime(2020, 1, 1), "failed"),
    ],
)
def test_a_sleep_until_any_time_ends_or_is_refused(until: datetime, ends: str) -> None:
    async def sleeps(ctx: Context) -> None:
        await ctx.sleep(until=until)

    with Bench(app_of(sleeps)) as bench:
        assert bench.submit("job").run().status == ends


def test_a_renamed_step_does_not_get_what_another_step_of_its_old_name_left() -> None:
    async def handler(ctx: Context) -> list[str]:
        new = await ctx.step("write", str.upper, "new", key="k", was="draft")
        old = await ctx.step("draft", str.upper, "old", key="k")
        if ctx.attempt == 1:
            raise OSError("once")
        return [new, old]

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        assert (job.result, job.changed_args) == (["NEW", "OLD"], [])


def test_a_wait_for_something_else_does_not_get_the_timeout_of_the_former_one() -> None:
    waits_for = {"subject": "a"}

    async def handler(ctx: Context) -> str:
        try:
            await ctx.wait_for_event(dict(waits_for), timeout=10)
        except WaitTimeout:
            await ctx.sleep(10)
        return "late"

    with Bench(app_of(handler)) as bench:
        job = bench.submit("job").run()
        bench.advance(11)
        assert job.run().waits == ["sleep"]
        waits_for["subject"] = "b"
        bench.advance(11)
        assert (job.run().error or "").startswith("WaitRefused: event: the job waited under this")


def test_another_type_error_is_tried_again() -> None:
    async def adds(ctx: Context) -> int:
        return 1 if ctx.attempt > 1 else None + 1  # type: ignore[operator]

    with Bench(app_of(adds)) as bench:
        job = bench.submit("job").run()
        assert (job.result, job.attempts) == (1, 2)
