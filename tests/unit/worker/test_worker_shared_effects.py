"""An effect that counts beyond its job, from the worker's side."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.effect_calls import Tool, outcome_of
from support.worker_bench import bench, granted

from streams import App, Context
from streams.errors import ConfigError
from streams.serde.records import Claim, Outcome
from streams.worker.handler import asking

DAY_MS = 86_400_000


def app_of(once_per: Any = "tenant", **declared: Any) -> tuple[App, Tool]:
    app, tool = App("test"), Tool({"id": 7})
    app.tool("email:send", **declared)

    @app.job("job")
    async def handler(ctx: Context) -> Any:
        return await ctx.effect("email:send", tool, key="k", once_per=once_per, to="x")

    return app, tool


@pytest.mark.parametrize(
    ("once_per", "declared", "keep_ms"),
    [
        ("job", {}, 0),
        ("job", {"keep": 86_400}, 0),
        ("tenant", {}, 90 * DAY_MS),
        ("refunds", {"keep": 86_400}, DAY_MS),
        ("refunds", {"keep": 1.5, "key_lifetime": 60}, 1_500),
    ],
)
async def test_claim_and_outcome_say_where_it_counts(
    once_per: str, declared: dict[str, Any], keep_ms: int
) -> None:
    app, tool = app_of(once_per, **declared)
    ended, at = await outcome_of(app)
    (claim,), (outcome,) = at.bodies(Claim), at.bodies(Outcome)
    assert (claim.once_per, claim.keep_ms, outcome.once_per) == (once_per, keep_ms, once_per)
    assert (ended.result, len(tool.calls)) == ('{"id":7}', 1)
    assert "once_per" not in tool.calls[0]


async def test_an_undeclared_tool_is_kept_ninety_days() -> None:
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> None:
        await ctx.effect("t", Tool(), key="k", once_per="tenant")

    _, at = await outcome_of(app)
    assert at.bodies(Claim)[0].keep_ms == 90 * DAY_MS


@pytest.mark.parametrize("once_per", ["", "@tenant", "a/b", "a b", "a\0b", None, 1])
async def test_a_bad_name_is_refused_before_anything_is_claimed(once_per: Any) -> None:
    app, tool = app_of(once_per)
    ended, at = await outcome_of(app)
    assert (ended.status, at.bodies(Claim), tool.calls) == ("failed", [], [])
    assert "once_per" in (ended.error or "")


@pytest.mark.parametrize("keep", [0, -1, 0.5, float("inf"), float("nan"), "90d", None, 1e12])
def test_a_bad_time_is_refused_where_the_tool_is_declared(keep: Any) -> None:
    with pytest.raises(ConfigError, match=r"tool 'email:send': keep="):
        app_of(keep=keep)


async def test_a_busy_effect_ends_the_run_which_names_it() -> None:
    app, tool = app_of("refunds")
    ended, at = await outcome_of(app, lambda _: {"kind": "busy", "message": "in job_1"})
    assert (ended.status, ended.result, ended.error) == (
        "blocked",
        '["refunds","email:send/k"]',
        "in job_1",
    )
    assert (tool.calls, at.bodies(Outcome)) == ([], [])


async def test_no_except_exception_of_a_handler_keeps_a_busy_effect_from_ending_the_run() -> None:
    app, went_on = App("test"), []

    @app.job("job")
    async def handler(ctx: Context) -> None:
        try:
            await ctx.effect("t", Tool(), key="k", once_per="tenant")
        except Exception:
            went_on.append(1)

    ended, _ = await outcome_of(app, lambda _: {"kind": "busy", "message": "in job_1"})
    assert (ended.status, went_on) == ("blocked", [])


async def test_the_runs_other_calls_end_before_it_waits() -> None:
    app, begun, may_end = App("test"), asyncio.Event(), asyncio.Event()
    asked = list[str]()

    async def slow(**_: Any) -> str:
        begun.set()
        await may_end.wait()
        return "sent"

    @app.job("job")
    async def handler(ctx: Context) -> None:
        mine = ctx.effect("slow", slow, key="k")

        async def theirs() -> None:
            await begun.wait()
            await ctx.effect("t", Tool(), key="k", once_per="tenant")

        await asyncio.gather(mine, theirs())

    def answer(claim: Claim) -> dict[str, Any]:
        asked.append(claim.action)
        busy = claim.action == "t/k"
        return {"kind": "busy", "message": "in job_1"} if busy else granted(claim)

    async with bench(app, answer=answer) as at:
        lease = at.give()
        await at.until(lambda: "t/k" in asked, "both are asked for")
        may_end.set()
        ended = await at.ended(lease)
        assert ended.status == "blocked"
        assert [(each.action, each.status) for each in at.bodies(Outcome)] == [("slow/k", "done")]


async def test_it_is_not_asked_for_inside_another_effect() -> None:
    """A run that waits for it ends, and the call around it would be cut off, or waited for."""
    app, tool = App("test"), Tool()

    @app.job("job")
    async def handler(ctx: Context) -> None:
        async def outer(**_: Any) -> None:
            await ctx.effect("inner", tool, key="job's own")
            await ctx.effect("inner", tool, key="k", once_per="tenant")

        await ctx.effect("outer", outer, key="k")

    def answer(claim: Claim) -> dict[str, Any]:
        busy = claim.once_per != "job"
        return {"kind": "busy", "message": "in job_1"} if busy else granted(claim)

    ended, at = await outcome_of(app, answer)
    assert (ended.status, len(tool.calls)) == ("failed", 1)
    assert "no effect waits inside another" in (ended.error or "")
    assert [claim.once_per for claim in at.bodies(Claim)] == ["job", "job"]


@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        ("busy", "blocked"),
        ("full", "full"),
        ("held", "failed"),
        ("refused", "failed"),
        ("approval", "parked"),
    ],
)
@pytest.mark.parametrize(("declared", "left"), [({}, "failed"), ({"key_lifetime": 60}, "unknown")])
async def test_a_no_for_now_to_one_of_two_copies_takes_the_other_back(
    monkeypatch: pytest.MonkeyPatch, declared: dict[str, Any], left: str, kind: str, ends: str
) -> None:
    """The other copy may be granted, for example because a person has approved meanwhile.

    After the run is over nobody would know that nothing began.
    """
    monkeypatch.setattr(asking, "RESEND_SECONDS", 0.01)
    copies = list[Claim]()

    def answer(claim: Claim) -> dict[str, Any] | None:
        copies.append(claim)
        return {"kind": kind, "message": "in job_1"} if len(copies) == 2 else None

    app, tool = app_of(**declared)
    ended, at = await outcome_of(app, answer)
    assert (ended.status, tool.calls) == (ends, [])
    (outcome,) = at.bodies(Outcome)
    assert (outcome.claim_id, outcome.status) == (copies[0].claim_id, left)
