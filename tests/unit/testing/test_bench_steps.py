"""Steps of whole handlers through crashes: each is done once it is recorded, and told apart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.bench_apps import app_of

from streams import Context
from streams.testing import Bench, Job

POINTS = [(name, done) for name in ("one", "two", "three", "last") for done in (False, True)]


class Work:
    """The functions of steps: it counts their calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def do(self, name: str) -> str:
        self.calls.append(name)
        return f"{name} {len(self.calls)}"

    async def gathered(self, ctx: Context) -> Any:
        three = (ctx.step(name, self.do, name) for name in ("one", "two", "three"))
        return [*await asyncio.gather(*three), await ctx.step("last", self.do, "last")]

    async def in_branches(self, ctx: Context) -> Any:
        async def one(name: str) -> Any:
            async with ctx.branch(name):
                return [await ctx.step(word, self.do, word) for word in ("one", "two", "three")]

        both = await asyncio.gather(one("a"), one("b"))
        return [*both[0], *both[1], await ctx.step("last", self.do, "last")]

    async def in_a_loop(self, ctx: Context) -> Any:
        names = ("one", "two", "three", "last")
        return [await ctx.step(name, self.do, name) for _ in range(2) for name in names]


@pytest.mark.parametrize(("name", "done"), POINTS)
@pytest.mark.parametrize("shape", ["gathered", "in_branches", "in_a_loop"])
def test_a_crash_at_any_step_repeats_what_was_not_recorded_and_nothing_else(
    shape: str, name: str, done: bool
) -> None:
    work = Work()
    with Bench(app_of(getattr(work, shape))) as bench:
        job = bench.submit("job").crash_in(step=name, done=done)
        recorded = dict(job.steps)
        job.run()
        assert job.status == "succeeded"
        assert recorded.items() <= job.steps.items()
        assert sorted(job.steps.values()) == sorted(job.result), "each call has its own"
        assert len(set(job.result)) == len(job.result)
        repeated = len(work.calls) - len(job.result)
        assert repeated == 0 if not done and shape == "in_a_loop" else repeated <= 6


def crashed_twice(job: Job) -> Job:
    return job.crash_in(step="two", done=True).crash_in(step="last").run()


def test_two_crashes_of_one_job_are_as_good_as_one() -> None:
    work = Work()
    with Bench(app_of(work.in_branches)) as bench:
        job = crashed_twice(bench.submit("job"))
        assert (job.status, sorted(job.steps.values())) == ("succeeded", sorted(job.result))
        assert list(job.steps)[-1] == "last"


def test_two_calls_of_one_name_at_once_name_the_handlers_lines() -> None:
    work = Work()

    async def handle(ctx: Context) -> Any:
        return await asyncio.gather(
            ctx.step("one", work.do, "one"),
            ctx.step("one", work.do, "one"),
        )

    with Bench(app_of(handle)) as bench:
        job = bench.submit("job")
        with pytest.warns(RuntimeWarning, match="never awaited"):
            job.run()
        line = handle.__code__.co_firstlineno + 2
        assert job.status == "failed"
        assert f"{__file__}:{line} and at {__file__}:{line + 1}" in (job.error or "")
        assert work.calls == []


def test_other_arguments_of_a_later_run_are_told() -> None:
    async def handle(ctx: Context) -> Any:
        await ctx.step("one", Work().do, f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise OSError("once")

    with Bench(app_of(handle)) as bench:
        job = bench.submit("job").run()
        assert (job.status, job.changed_args) == ("succeeded", ["one"])
        assert job.steps == {"one": "attempt 1 1"}
