"""A call for which a limit has no room, from the worker's side."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from support.effect_calls import Tool, outcome_of
from support.worker_bench import bench, granted

from streams import App, Context
from streams.errors import PermanentError, RetryAfter, TransientError
from streams.serde.records import Checkpoint, Claim, ClaimStep, Outcome, StepFailed
from streams.worker.handler import room

FULL = {"kind": "full", "message": "limit 'mails' has no room"}


def app_of(model: Any = None) -> tuple[App, Tool]:
    app, tool = App("test"), Tool({"id": 7})

    @app.job("job")
    async def handler(ctx: Context) -> Any:
        return await ctx.effect("email:send", tool, key="k", model=model, to="x")

    return app, tool


@pytest.mark.parametrize(
    ("model", "asked"),
    [(None, '["email:send",null]'), ("org/gpt x", '["email:send","org/gpt x"]')],
)
async def test_a_call_without_room_ends_the_run_which_names_it(model: Any, asked: str) -> None:
    app, tool = app_of(model)
    ended, at = await outcome_of(app, lambda _: FULL)
    assert (ended.status, ended.result, ended.error) == ("full", asked, FULL["message"])
    assert (tool.calls, at.bodies(Outcome)) == ([], [])
    assert [claim.model for claim in at.bodies(Claim)] == [model]


async def test_a_model_is_no_argument_of_the_tool() -> None:
    app, tool = app_of("gpt-x")
    ended, _ = await outcome_of(app)
    assert (ended.status, [*tool.calls[0]]) == ("succeeded", ["to", "idempotency_key"])


@pytest.mark.parametrize("model", ["", "a\0b", 7, "x" * 257, "\ud800"])
async def test_a_bad_model_is_refused_before_anything_is_claimed(model: Any) -> None:
    app, tool = app_of(model)
    ended, at = await outcome_of(app)
    assert (ended.status, at.bodies(Claim), tool.calls) == ("failed", [], [])
    assert "model=" in (ended.error or "")


async def test_no_except_exception_of_a_handler_keeps_the_run_from_ending() -> None:
    app, went_on = App("test"), []

    @app.job("job")
    async def handler(ctx: Context) -> None:
        try:
            await ctx.effect("t", Tool(), key="k")
        except Exception:
            went_on.append(1)

    ended, _ = await outcome_of(app, lambda _: FULL)
    assert (ended.status, went_on) == ("full", [])


@pytest.mark.parametrize("is_free", [True, False])
async def test_the_runs_own_calls_end_first_and_then_it_asks_again(is_free: bool) -> None:
    app, may_end, asked = App("test"), asyncio.Event(), list[Claim]()

    async def slow(**_: Any) -> str:
        await may_end.wait()
        return "sent"

    @app.job("job")
    async def handler(ctx: Context) -> None:
        await asyncio.gather(ctx.effect("t", slow, key="a"), ctx.effect("t", Tool(), key="b"))

    def answer(claim: Claim) -> dict[str, Any]:
        asked.append(claim)
        again = len(asked) > 2 and is_free
        return granted(claim) if claim.action == "t/a" or again else FULL

    async with bench(app, answer=answer) as at:
        lease = at.give()
        await at.until(lambda: len(asked) == 2, "both are asked for")
        may_end.set()
        ended = await at.ended(lease)
    assert ended.status == ("succeeded" if is_free else "full")
    assert [claim.action for claim in asked] == ["t/a", "t/b", "t/b"]
    assert len({claim.claim_id for claim in asked}) == 3
    assert at.bodies(Outcome)[0].status == "done"


async def test_a_call_within_another_asks_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of the run would leave the outcome of the call around it unknown."""
    monkeypatch.setattr(room, "_INNER_SECONDS", 0.01)
    app, tool, asked = App("test"), Tool(), list[str]()

    @app.job("job")
    async def handler(ctx: Context) -> None:
        async def outer(**_: Any) -> None:
            await ctx.effect("inner", tool, key="k")

        await ctx.effect("outer", outer, key="k")

    def answer(claim: Claim) -> dict[str, Any]:
        asked.append(claim.action)
        return FULL if claim.action == "inner/k" and len(asked) < 5 else granted(claim)

    ended, _ = await outcome_of(app, answer)
    assert (ended.status, len(tool.calls), len(asked)) == ("succeeded", 1, 5)


def steps_app(models: tuple[str | None, ...], function: Any) -> App:
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> Any:
        calls = (ctx.step(f"s{n}", function, n, model=model) for n, model in enumerate(models))
        return await asyncio.gather(*calls)

    return app


async def test_a_step_with_a_model_claims_before_it_runs_and_others_do_not() -> None:
    asked = list[str]()

    async def double(n: int) -> int:
        asked.append(f"run {n}")
        return 2 * n

    def answer(claim: Claim | ClaimStep) -> dict[str, Any]:
        assert isinstance(claim, ClaimStep)
        asked.append(f"claim {claim.step} {claim.model}")
        return {"kind": "granted"}

    ended, at = await outcome_of(steps_app((None, "gpt-x"), double), answer)
    assert (ended.status, ended.result) == ("succeeded", "[0,2]")
    assert asked == ["run 0", "claim s1 gpt-x", "run 1"]
    (claim,) = at.bodies(ClaimStep)
    kept = {each.step.id: each.claim_id for each in at.bodies(Checkpoint)}
    assert kept == {"s0": "", "s1": claim.claim_id}
    assert at.bodies(StepFailed) == []


async def test_a_step_that_fails_gives_its_place_back() -> None:
    async def fails(_: int) -> None:
        raise TransientError("503")

    ended, at = await outcome_of(steps_app(("gpt-x",), fails), lambda _: {"kind": "granted"})
    (claim,) = at.bodies(ClaimStep)
    assert (ended.status, [each.claim_id for each in at.bodies(StepFailed)]) == (
        "retry",
        [claim.claim_id],
    )


@pytest.mark.parametrize(
    ("kind", "status", "result"),
    [("full", "full", '[null,"gpt-x"]'), ("cancel", "cancelled", None)],
)
async def test_a_step_without_room_is_not_begun_and_ends_the_run(
    kind: str, status: str, result: str | None
) -> None:
    ran = list[int]()
    app = steps_app(("gpt-x",), ran.append)
    ended, at = await outcome_of(app, lambda _: {"kind": kind, "message": "why"})
    assert (ended.status, ended.result, ended.error, ran) == (status, result, "why", [])
    assert at.bodies(Checkpoint) == []


async def test_a_step_that_nobody_waits_for_any_more_takes_its_claim_back() -> None:
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> str:
        with suppress(TimeoutError):
            await asyncio.wait_for(ctx.step("s", print, model="gpt-x"), 0.05)
        return "went on"

    ended, at = await outcome_of(app, lambda _: None)
    (claim,), (taken_back,) = at.bodies(ClaimStep), at.bodies(StepFailed)
    assert (ended.result, taken_back.claim_id) == ('"went on"', claim.claim_id)


async def test_a_call_of_a_model_ends_before_the_run_ends_for_lack_of_room() -> None:
    may_end = asyncio.Event()

    async def slow(n: int) -> int:
        await may_end.wait()
        return n

    def answer(claim: ClaimStep) -> dict[str, Any]:
        if claim.step == "s1":
            may_end.set()
        return {"kind": "full" if claim.step == "s1" else "granted", "message": "why"}

    ended, at = await outcome_of(steps_app(("gpt-x", "gpt-x"), slow), answer)
    assert ended.status == "full"
    assert [each.step.id for each in at.bodies(Checkpoint)] == ["s0"]
    assert [claim.step for claim in at.bodies(ClaimStep)] == ["s0", "s1", "s1"]


@pytest.mark.parametrize(
    ("error", "blames"),
    [
        (TransientError("503"), True),
        (RetryAfter(1), True),
        (ConnectionResetError(), True),
        (ValueError("no JSON"), True),
        (PermanentError("no such order"), False),
    ],
)
async def test_an_outcome_says_whether_the_tool_failed(error: Exception, blames: bool) -> None:
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> None:
        await ctx.effect("t", Tool(error=error), key="k")

    _, at = await outcome_of(app)
    assert [each.blames_tool for each in at.bodies(Outcome)] == [blames]


@pytest.mark.parametrize("is_timeout", [True, False])
async def test_a_tool_that_does_not_answer_in_time_has_failed_and_one_of_a_stopped_run_has_not(
    is_timeout: bool,
) -> None:
    app, begun = App("test"), asyncio.Event()

    async def slow(**_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    @app.job("job")
    async def handler(ctx: Context) -> None:
        await ctx.effect("t", slow, key="k")

    async with bench(app) as at:
        lease = at.give(timeout_seconds=0.1 if is_timeout else 30)
        await begun.wait()
        if not is_timeout:
            at.reply(lease, "cancel", message="not needed")
        await at.ended(lease)
        assert [each.blames_tool for each in at.bodies(Outcome)] == [is_timeout]
