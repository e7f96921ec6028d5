"""A call for which a limit has no room, from the worker's side."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.effect_calls import Tool, outcome_of
from support.worker_bench import bench, granted

from streams import App, Context
from streams.serde.records import Claim, Outcome
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
