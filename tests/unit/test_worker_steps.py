"""A step runs once a job; its value is what JSON gives back."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from leasing import bench

from streams import App, Context
from streams.serde.records import Checkpoint, Ended
from streams.worker.values import MAX_BYTES


async def ended_of(handler: Any, **lease: Any) -> tuple[Ended, list[Checkpoint]]:
    app = App("test")
    app.job("job")(handler)
    async with bench(app) as at:
        ended = await at.ended(at.give(**lease))
        return ended, at.bodies(Checkpoint)


async def test_a_value_is_kept_before_the_step_returns_and_reads_as_json() -> None:
    async def handler(ctx: Context) -> Any:
        return [
            await ctx.step("draft", lambda a, *, b: (a, b), 1, b=2),
            await ctx.step("d2", nothing),
        ]

    async def nothing() -> None: ...

    ended, kept = await ended_of(handler)
    assert ended.result == "[[1,2],null]"
    assert [(c.name, c.value) for c in kept] == [("draft", "[1,2]"), ("d2", "null")]


async def test_a_kept_step_is_not_run_again() -> None:
    calls: list[str] = []

    async def handler(ctx: Context) -> Any:
        values = [await ctx.step("draft", calls.append, "x")]
        for text in "yz":
            values.append(await ctx.step("new", calls.append, text))
        return values

    ended, kept = await ended_of(handler, checkpoints={"draft": '{"from": "an earlier run"}'})
    assert orjson.loads(ended.result or "") == [{"from": "an earlier run"}, None, None]
    assert calls == ["y"]
    assert [c.name for c in kept] == ["new"]


async def test_one_name_twice_at_once_runs_once() -> None:
    calls: list[int] = []

    async def work() -> int:
        calls.append(1)
        await asyncio.to_thread(lambda: None)
        return len(calls)

    async def handler(ctx: Context) -> Any:
        return await asyncio.gather(ctx.step("s", work), ctx.step("s", work))

    ended, kept = await ended_of(handler)
    assert (ended.result, len(kept)) == ("[1,1]", 1)


@pytest.mark.parametrize(
    ("value", "named"),
    [({1}, "set"), ("x" * MAX_BYTES, "262,146 bytes"), (b"raw", "bytes")],
)
async def test_a_value_that_cannot_be_kept_names_its_step(value: Any, named: str) -> None:
    async def handler(ctx: Context) -> None:
        await ctx.step("draft", lambda: value)

    ended, kept = await ended_of(handler)
    assert (ended.status, kept) == ("failed", [])
    assert "'draft'" in (ended.error or "")
    assert named in (ended.error or "")


async def test_the_steps_of_a_job_fit_into_one_lease() -> None:
    async def handler(ctx: Context) -> None:
        for number in range(3):
            await ctx.step(f"s{number}", lambda: "x" * 200_000)

    ended, kept = await ended_of(handler)
    assert [c.name for c in kept] == ["s0", "s1"]
    assert "'s2'" in (ended.error or "")


async def test_an_error_in_a_thread_is_the_steps() -> None:
    def fail() -> None:
        raise StopIteration

    async def handler(ctx: Context) -> None:
        await ctx.step("s", fail)

    ended, _ = await ended_of(handler)
    assert ended.status == "retry"
    assert "StopIteration" in (ended.error or "")


async def test_the_cap_of_all_steps_counts_the_bytes_of_values_and_names() -> None:
    async def wide(ctx: Context) -> None:
        for number in range(3):
            await ctx.step(f"s{number}", lambda: "语" * 60_000)

    async def named(ctx: Context) -> None:
        for number in range(100):
            await ctx.step(f"{number:04}" + "语" * 250, lambda: "x" * 8_000)

    for handler in (wide, named):
        ended, kept = await ended_of(handler)
        assert (ended.status, "524,288 bytes" in (ended.error or "")) == ("failed", True)
        assert sum(len(c.name.encode()) + len(c.value.encode()) for c in kept) <= 524_288
