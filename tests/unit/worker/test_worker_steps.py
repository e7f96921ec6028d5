"""A step runs once a job; its value is what JSON gives back."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import orjson
import pytest
from support.step_results import left
from support.worker_bench import bench

from streams import App, Context
from streams.errors import LeaseLost
from streams.serde.records import Checkpoint, Ended, StepResult
from streams.serde.sizes import MAX_VALUE_BYTES
from streams.worker.handler import steps as module


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
    assert [(c.step.id, c.step.value) for c in kept] == [("draft", "[1,2]"), ("d2", "null")]


async def test_a_kept_step_is_not_run_again() -> None:
    calls: list[str] = []

    async def handler(ctx: Context) -> Any:
        values = [await ctx.step("draft", calls.append, "x")]
        for text in "yz":
            values.append(await ctx.step("new", calls.append, text))
        return values

    ended, kept = await ended_of(handler, steps=left({"draft": '{"from": "an earlier run"}'}))
    assert orjson.loads(ended.result or "") == [{"from": "an earlier run"}, None, None]
    assert calls == ["y", "z"]
    assert [c.step.id for c in kept] == ["new", "new#2"]


async def test_a_step_s_arguments_may_have_any_names() -> None:
    async def handler(ctx: Context) -> Any:
        given: dict[str, Any] = {"name": 1, "function": 2, "args": 3, "kwargs": 4, "self": 5}
        return await ctx.step("draft", lambda **named: sum(named.values()), **given)

    ended, _ = await ended_of(handler)
    assert (ended.status, ended.result) == ("succeeded", "15")


@pytest.mark.parametrize(
    ("value", "named"),
    [({1}, "set"), ("x" * MAX_VALUE_BYTES, "262,146 bytes"), (b"raw", "bytes")],
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
    assert [c.step.id for c in kept] == ["s0", "s1"]
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
        sizes = (len(c.step.id.encode()) + len((c.step.value or "").encode()) for c in kept)
        assert sum(sizes) <= 524_288


async def test_steps_that_end_together_share_one_limit() -> None:
    async def handler(ctx: Context) -> list[Any]:
        steps = (ctx.step(f"s{n}", lambda: "x" * 200_000) for n in range(8))
        done = await asyncio.gather(*steps, return_exceptions=True)
        return [type(value).__name__ for value in done]

    ended, kept = await ended_of(handler)
    assert orjson.loads(ended.result or "") == ["str", "str", *["PermanentError"] * 6]
    assert len(kept) == 2


async def test_steps_that_are_kept_already_count_as_well() -> None:
    async def handler(ctx: Context) -> None:
        await ctx.step("more", lambda: "x" * 100_000)

    ended, kept = await ended_of(handler, steps=left({"a": '"' + "x" * 450_000 + '"'}))
    assert (ended.status, kept) == ("failed", [])
    assert "step 'more' has 100,061 bytes" in (ended.error or "")
    assert "the 450,026 of the others" in (ended.error or "")
    assert "more than 524,288 bytes" in (ended.error or "")


@pytest.mark.parametrize(("bytes_left", "ends"), [(800_000, "parked"), (900_000, "failed")])
async def test_what_waits_left_is_bounded_by_what_a_run_is_given(
    bytes_left: int, ends: str
) -> None:
    waited = StepResult("gone", "event", value='"' + "x" * bytes_left + '"')

    async def handler(ctx: Context) -> None:
        ctx._history.call("gone", kind="event")
        try:
            assert await ctx.step("s", lambda: 7) == 7
        finally:
            await ctx.sleep(60)

    ended, kept = await ended_of(handler, steps=(waited,))
    assert (ended.status, len(kept)) == (ends, int(ends == "parked"))
    assert ends == "parked" or "let another job go on" in (ended.error or "")


async def test_a_step_that_could_not_be_said_gives_its_bytes_back() -> None:
    async def refuse(*_: Any) -> None:
        raise LeaseLost("the broker is away")

    async def handler(ctx: Context) -> None:
        session = ctx._session
        say, session.say = session.say, refuse  # type: ignore[method-assign,assignment]
        with pytest.raises(LeaseLost):
            await ctx.step("s", lambda: "x" * 250_000)
        session.say = say  # type: ignore[method-assign]
        for number in range(2):
            await ctx.step(f"s{number}", lambda: "x" * 250_000)

    ended, kept = await ended_of(handler)
    assert (ended.status, [c.step.id for c in kept]) == ("succeeded", ["s0", "s1"])


async def test_many_small_steps_fit_the_lease_with_their_frames() -> None:
    """Empty values cost bytes, too: 100,000 of them would make a lease that no topic takes."""
    names = {f"{number:05}": "0" for number in range(100_000)}

    async def handler(ctx: Context) -> None:
        await ctx.step("one more", lambda: 0)

    ended, kept = await ended_of(handler, steps=left(names))
    assert (ended.status, kept) == ("failed", [])


async def test_a_number_is_measured_as_it_is_stored() -> None:
    """As given, `1e15` has 4 bytes; as stored it has 18."""

    async def handler(ctx: Context) -> None:
        await ctx.step("numbers", lambda: [1e15] * 20_000)

    ended, kept = await ended_of(handler)
    assert (ended.status, kept) == ("failed", [])
    assert "'numbers' has 380,001 bytes of JSON, more than 262,144" in (ended.error or "")


async def test_a_step_asked_with_other_arguments_keeps_its_value_and_shows_it_once() -> None:
    async def handler(ctx: Context) -> Any:
        return await ctx.step("draft", str.upper, ctx.input["text"])

    first, kept = await ended_of(handler, input='{"text": "a"}')
    assert (first.result, kept[0].step.changed_args) == ('"A"', False)
    second, shown = await ended_of(handler, input='{"text": "b"}', steps=(kept[0].step,))
    assert second.result == '"A"'
    assert [each.step for each in shown] == [replace(kept[0].step, changed_args=True)]
    third, more = await ended_of(handler, input='{"text": "b"}', steps=(shown[0].step,))
    assert (third.result, more) == ('"A"', [])
    same, more = await ended_of(handler, input='{"text": "a"}', steps=(kept[0].step,))
    assert (same.result, more) == ('"A"', [])


async def test_a_strict_step_fails_with_other_arguments() -> None:
    async def handler(ctx: Context) -> Any:
        return await ctx.step("draft", str.upper, ctx.input["text"], strict=True)

    _, kept = await ended_of(handler, input='{"text": "a"}')
    same, _ = await ended_of(handler, input='{"text": "a"}', steps=(kept[0].step,))
    other, more = await ended_of(handler, input='{"text": "b"}', steps=(kept[0].step,))
    assert (same.status, other.status, more) == ("succeeded", "failed", [])
    assert "step 'draft' has a value for other arguments" in (other.error or "")


@pytest.mark.parametrize(
    "argument", [b"raw", object(), {1: 2}, float("nan")], ids=["bytes", "object", "key", "nan"]
)
async def test_arguments_need_not_be_json(argument: object) -> None:
    async def handler(ctx: Context) -> Any:
        return await ctx.step("draft", lambda given: given is argument, argument, strict=True)

    ended, kept = await ended_of(handler)
    assert (ended.result, kept[0].step.digest) == ("true", b"")
    again, _ = await ended_of(handler, steps=(replace(kept[0].step, digest=b"d" * 32),))
    assert again.result == "true"


async def test_the_number_of_steps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 3)

    async def handler(ctx: Context) -> Any:
        for _ in range(9):
            await ctx.step("draft", lambda: 1)

    ended, kept = await ended_of(handler, steps=left({"old": "1"}))
    assert [each.step.id for each in kept] == ["draft", "draft#2"]
    assert "step 'draft#3': this job has 3 finished steps" in (ended.error or "")


async def test_an_id_of_many_branches_is_bounded() -> None:
    async def handler(ctx: Context) -> Any:
        async with AsyncExitStack() as stack:
            for _ in range(20):
                await stack.enter_async_context(ctx.branch("x" * 250))
            await ctx.step("draft", lambda: 1)

    ended, _ = await ended_of(handler)
    assert "step 'draft' has an id of 5,025 characters" in (ended.error or "")


async def test_what_is_left_and_the_input_fit_a_lease_as_bytes() -> None:
    async def handler(ctx: Context) -> None:
        await ctx.step("one", lambda: None)

    kept = tuple(StepResult(f"{n}", "event", -1, value="x" * 230_000) for n in range(3))
    ended, _ = await ended_of(handler, steps=kept, input=f'"{"日" * 80_000}"')
    assert "let another job go on after fewer" in (ended.error or "")
