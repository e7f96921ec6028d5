"""Calls are numbered when they are made, told apart, and compared with what earlier runs kept."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
import pytest
from support.worker_bench import bench

from streams import AmbiguousStep, App, Context
from streams.serde.records import Checkpoint, Ended, Outcome, StepResult
from streams.worker.handler import history as module
from streams.worker.handler.history import History

Handler = Callable[[Context], Awaitable[Any]]


def recorded(id_: str, position: int, value: str = '"kept"', **fields: Any) -> StepResult:
    return StepResult(id_, "step", position, value=value, **fields)


async def run(handler: Handler, *steps: StepResult, **of_app: Any) -> tuple[Ended, dict[str, int]]:
    """How a run ends, and the positions of the steps that it kept, by their ids."""
    app = App("test", **of_app)
    app.job("job")(handler)
    async with bench(app) as at:
        ended = await at.ended(at.give(steps=steps))
        kept = {each.step.id: each.step.position for each in at.bodies(Checkpoint)}
    return ended, kept


def work(value: object = "new") -> object:
    return value


async def test_gathered_steps_are_numbered_in_the_order_of_their_calls() -> None:
    async def handler(ctx: Context) -> Any:
        late = ctx.step("late", work)
        made = await asyncio.gather(ctx.step("a", work, 1), ctx.step("b", work, 2))
        return [*made, await late]

    ended, kept = await run(handler)
    assert (ended.result, kept) == ('[1,2,"new"]', {"late": 0, "a": 1, "b": 2})


async def test_a_name_asked_again_is_the_next_step_and_a_key_the_same() -> None:
    async def handler(ctx: Context) -> Any:
        again = [await ctx.step("draft", work, n) for n in range(3)]
        return again + [await ctx.step("mail", work, n, key="k") for n in range(2)]

    ended, kept = await run(handler)
    assert ended.result == "[0,1,2,0,0]"
    assert kept == {"draft": 0, "draft#2": 1, "draft#3": 2, "mail[k]": 3}


async def test_a_branch_numbers_its_own_calls_and_those_of_its_tasks() -> None:
    async def one(ctx: Context, name: str) -> None:
        async with ctx.branch(name):
            await ctx.step("draft", work)
            await asyncio.create_task(ctx.step("send", work))
            async with ctx.branch("deep"):
                await ctx.step("draft", work)

    async def handler(ctx: Context) -> None:
        await asyncio.gather(one(ctx, "x"), one(ctx, "y"))
        await ctx.step("draft", work)

    ended, kept = await run(handler)
    assert ended.status == "succeeded"
    assert kept == {"draft": 0} | {
        f"{branch}/{name}": position
        for branch in "xy"
        for name, position in (("draft", 0), ("send", 1), ("deep/draft", 0))
    }


async def test_a_call_may_be_a_task_or_wait_under_a_timeout() -> None:
    async def handler(ctx: Context) -> Any:
        task = asyncio.create_task(ctx.step("a", work, 1))
        waited = await asyncio.wait_for(ctx.step("b", work, 2), 60)
        async with asyncio.timeout(60):
            return [await task, waited, await ctx.step("c", work, 3)]

    ended, kept = await run(handler)
    assert (ended.result, kept) == ("[1,2,3]", {"a": 0, "b": 1, "c": 2})


async def test_two_calls_of_one_name_at_once_name_both_lines() -> None:
    async def handler(ctx: Context) -> None:
        first = ctx.step("draft", work)
        await asyncio.gather(first, ctx.step("draft", work))

    with pytest.warns(RuntimeWarning, match="never awaited"):
        ended, kept = await run(handler)
    line = handler.__code__.co_firstlineno
    assert (ended.status, kept) == ("failed", {})
    assert (ended.error or "").startswith("AmbiguousStep: step 'draft' is in flight twice at once")
    assert f"{__file__}:{line + 1} and at {__file__}:{line + 2}" in (ended.error or "")


async def test_one_key_or_one_branch_twice_at_once_is_ambiguous_and_others_are_not() -> None:
    async def handler(ctx: Context) -> Any:
        await asyncio.gather(*(ctx.step("draft", work, key=key) for key in "ab"))
        first = ctx.step("draft", work, key="a")
        with pytest.raises(AmbiguousStep, match="another key="):
            await ctx.step("draft", work, key="a")
        await first
        async with ctx.branch("x"):
            await asyncio.create_task(other(ctx))
        async with ctx.branch("x"):
            return "open again"

    async def other(ctx: Context) -> None:
        async with ctx.branch("x"):  # in the branch x of its maker: another one
            pass

    async def twice(ctx: Context) -> None:
        async def one() -> None:
            async with ctx.branch("x"):
                await asyncio.sleep(0)

        await asyncio.gather(one(), one())

    ended, _ = await run(handler)
    assert ended.result == '"open again"'
    ended, _ = await run(twice)
    assert "AmbiguousStep: branch 'x' is open twice at once" in (ended.error or "")


async def test_a_call_that_never_began_is_not_in_flight() -> None:
    async def handler(ctx: Context) -> Any:
        task = asyncio.create_task(ctx.step("draft", work))
        task.cancel()
        await asyncio.wait({task})
        _ = ctx.step("draft", work)
        del _
        gc.collect()
        return await ctx.step("draft", work)

    with pytest.warns(RuntimeWarning, match="never awaited"):
        ended, kept = await run(handler)
    assert (ended.status, kept) == ("succeeded", {"draft#3": 2})


async def test_what_a_step_calls_does_not_shift_the_handlers_numbers() -> None:
    async def handler(ctx: Context) -> Any:
        async def outer() -> Any:
            return await ctx.step("inner", work)

        async def tool(idempotency_key: str) -> Any:
            return await ctx.step("inner", work)

        await ctx.step("outer", outer)
        await ctx.effect("mail", tool, key="k")
        return await ctx.step("last", work)

    ended, kept = await run(handler)
    assert ended.status == "succeeded"
    assert kept == {"outer()/inner": 0, "outer": 0, "mail%2Fk()/inner": 0, "last": 1}


async def straight(ctx: Context) -> Any:
    return [await ctx.step(name, work) for name in ("draft", "check", "send")]


async def test_what_is_kept_is_read_and_the_rest_is_done() -> None:
    ended, kept = await run(straight, recorded("draft", 0), recorded("check", 1))
    assert (ended.result, kept) == ('["kept","kept","new"]', {"send": 2})


DIVERGED = {
    "renamed": ([recorded("write", 0)], "recorded write, asked draft"),
    "inserted": ([recorded("draft", 0), recorded("send", 1)], "recorded send, asked check"),
    "removed": (
        [recorded("draft", 0), recorded("more", 1), recorded("check", 2)],
        "recorded more, asked send",
    ),
    "reordered": ([recorded("check", 0)], "recorded check, asked draft"),
    "moved and renamed": (
        [recorded(name, at) for at, name in enumerate("abcde")]
        + [
            recorded("decided", -1),
            StepResult("!new", "patch", 2, value="true"),
            StepResult("answer", "event", 1, value="1"),
        ],
        "recorded a, asked draft; finished and not asked for yet: b, c, d and 1 more",
    ),
    "of another kind": (
        [StepResult("draft", "event", 0, value="1")],
        "recorded event draft, asked step draft",
    ),
}


@pytest.mark.parametrize(("steps", "told"), DIVERGED.values(), ids=DIVERGED)
async def test_other_steps_than_the_recorded_ones_are_told(
    steps: list[StepResult], told: str
) -> None:
    ended, kept = await run(straight, *steps)
    assert (ended.error, kept) == (f"HistoryDiverged: {told}", {})


async def test_after_a_crash_in_a_gather_the_rest_goes_on() -> None:
    async def handler(ctx: Context) -> Any:
        return await asyncio.gather(*(ctx.step(name, work) for name in "abc"))

    for name, position in zip("abc", range(3), strict=True):
        ended, kept = await run(handler, recorded(name, position))
        assert ended.status == "succeeded"
        assert kept.keys() == set("abc") - {name}


async def test_tasks_of_one_branch_may_take_turns_in_another_order() -> None:
    async def handler(ctx: Context) -> Any:
        async def slow() -> None:
            await ctx.step("a1", work)
            await asyncio.sleep(0.01)
            await ctx.step("a2", work)

        async def quick() -> None:
            await ctx.step("b1", work)
            await ctx.step("b2", work)

        await asyncio.gather(slow(), quick())

    left = [recorded(id_, at) for at, id_ in enumerate(["a1", "b1", "a2"])]
    ended, kept = await run(handler, *left)
    assert (ended.status, kept) == ("succeeded", {"b2": 2})


async def test_a_task_that_never_asks_does_not_hold_the_others_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_ROUND_SECONDS", 0)

    async def handler(ctx: Context) -> Any:
        await ctx.step("start", work)
        await asyncio.create_task(ctx.step("other", work))
        await asyncio.create_task(straight(ctx))

    ended, _ = await run(handler, recorded("start", 0), recorded("b", 1))
    assert ended.error == "HistoryDiverged: recorded b, asked other"


async def test_what_failed_once_and_not_now_is_no_divergence() -> None:
    async def handler(ctx: Context) -> Any:
        try:
            await ctx.step("primary", work)
        except OSError:
            await ctx.step("fallback", work)
        return await ctx.step("send", work)

    then = History(())
    then.failed("primary")
    left = then.result(then.call("fallback", kind="step"), value="1")
    ended, kept = await run(handler, replace(left, position=1))
    assert (ended.status, kept) == ("succeeded", {"primary": 0, "send": 1})


async def test_of_many_failures_each_that_is_gone_is_told() -> None:
    names = [f"fetch[{number}]" for number in range(25)]
    then = History(())
    for name in names:
        then.failed(name)
    left = then.result(then.call("note", kind="step"), value="1")
    for gone in names:
        now = History((left,))
        for name in names:
            if name != gone:
                now.failed(name)
        await now.check(now.call("end", kind="step"))


async def test_a_divergence_leaves_the_outcome_of_no_tool_unknown() -> None:
    async def slow(idempotency_key: str) -> None:
        called.set()
        for _ in range(200):
            await asyncio.sleep(0)

    async def other(ctx: Context) -> None:
        await called.wait()
        await ctx.step("other", work)

    async def handler(ctx: Context) -> None:
        await asyncio.gather(ctx.effect("mail", slow, key="k"), other(ctx))

    called = asyncio.Event()
    app = App("test")
    app.job("job")(handler)
    async with bench(app) as at:
        ended = await at.ended(at.give(steps=(recorded("draft", 0),)))
        outcomes = [each.status for each in at.bodies(Outcome)]
    assert ended.error == "HistoryDiverged: recorded draft, asked other"
    assert outcomes == ["done"]


async def test_what_fails_again_is_compared() -> None:
    async def away() -> None:
        raise OSError("away")

    async def handler(ctx: Context) -> Any:
        with suppress(OSError):
            await ctx.step("primary", away)
        return await ctx.step("other", work)

    then = History(())
    then.failed("primary")
    left = then.result(then.call("fallback", kind="step"), value="1")
    ended, _ = await run(handler, replace(left, position=1))
    assert ended.error == "HistoryDiverged: recorded fallback, asked other"


async def test_a_second_wait_of_a_name_is_another_one() -> None:
    history = History((StepResult("reply", "event", 0, value="1"),))
    first = history.call("reply", kind="event")
    history.ended(first)
    second = history.call("reply", kind="event")
    assert (second.id, second.ordinal, history.found(second)) == ("reply#2", 2, None)
    await history.check(second)
    history.kept(history.result(second, value="2"))
    history.ended(second)
    assert orjson.loads((history.found(second) or first).value or "") == 2  # type: ignore[union-attr]


async def patched(ctx: Context) -> Any:
    first = await ctx.step("draft", work)
    greeted = ctx.patched("greeting") and await ctx.step("greet", work)
    return [first, greeted, await ctx.step("send", work), ctx.patched("greeting")]


async def test_a_patch_is_taken_where_the_history_has_not_gone_past_it() -> None:
    ended, kept = await run(patched, recorded("draft", 0))
    assert ended.result == '["kept","new","new",true]'
    assert kept == {"!greeting": 1, "greet": 1, "send": 2}
    ended, kept = await run(patched, recorded("draft", 0), recorded("send", 1))
    assert (ended.result, kept) == ('["kept",false,"kept",false]', {})


async def test_a_patch_that_was_taken_stays_taken_and_may_be_removed_later() -> None:
    mark = StepResult("!greeting", "patch", 1, value="true")
    left = [recorded("draft", 0), mark, recorded("greet", 1)]
    for handler, send in ((patched, "send"), (without_the_patch, "send")):
        ended, kept = await run(handler, *left)
        assert (ended.status, kept) == ("succeeded", {send: 2})
    ended, _ = await run(straight, *left)
    assert ended.error == "HistoryDiverged: recorded greet, asked check", "former code again"


async def without_the_patch(ctx: Context) -> Any:
    return [await ctx.step(name, work) for name in ("draft", "greet", "send")]


async def test_a_patch_is_durable_before_any_later_result() -> None:
    async def handler(ctx: Context) -> None:
        assert ctx.patched("one")
        slow = asyncio.create_task(ctx.step("slow", asyncio.sleep, 0))
        assert ctx.patched("two")
        await asyncio.gather(slow, ctx.step("quick", work))

    _, kept = await run(handler)
    order = list(kept)
    assert set(order[:2]) == {"!one", "!two"}
    assert kept["!two"] == 1


async def test_each_branch_has_its_own_patches() -> None:
    async def handler(ctx: Context) -> Any:
        async with ctx.branch("x"):
            new = ctx.patched("p")
        return [new, ctx.patched("p")]

    ended, _ = await run(handler, recorded("x/draft", 0))
    assert ended.result == "[false,true]"


async def test_a_call_before_a_recorded_one_goes_on_without_waiting_for_it() -> None:
    history = History((recorded("b", 1),))
    await history.check(history.call("a", kind="step"))
