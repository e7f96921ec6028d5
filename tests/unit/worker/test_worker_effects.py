"""G2 from the worker's side: ask, call, record, and never call without having asked."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from support.effect_calls import Tool, app_calling, outcome_of
from support.worker_bench import bench, granted

from streams import App, Context
from streams.errors import LeaseLost
from streams.serde.records import Checkpoint, Claim, Ended, Outcome
from streams.worker.handler import asking


async def test_a_granted_effect_is_called_under_its_key_and_recorded_before_it_returns() -> None:
    tool = Tool({"id": 7})
    ended, at = await outcome_of(app_calling(tool))
    assert tool.calls == [{"to": "x", "idempotency_key": "idk of email:send/reply"}]
    assert ended.result == '{"id":7}'
    kinds = [type(c.body).__name__ for _, c in at.commands() if c.job_id]
    assert kinds == ["Claim", "Outcome", "Ended"]
    (claim,), (outcome,) = at.bodies(Claim), at.bodies(Outcome)
    assert (claim.action, claim.key_lifetime_ms) == ("email:send/reply", 60_000)
    assert len(claim.digest) == 32
    assert (outcome.claim_id, outcome.status, outcome.result) == (
        claim.claim_id,
        "done",
        '{"id":7}',
    )


async def test_a_run_goes_on_before_an_outcome_is_acknowledged_and_ends_behind_it() -> None:
    """Nothing later of the run can be committed before the outcome: the connection keeps order."""
    app, recorded = App("test"), []

    async def tool(**_: Any) -> None:
        at.silent = True

    @app.job("job")
    async def handler(ctx: Context) -> None:
        await ctx.effect("t", tool, key="k")
        recorded.extend(at.bodies(Outcome))

    async with bench(app) as at:
        await at.ended(at.give())
        assert at.worker.executor.running
        at.acknowledge()
        await at.idle()
        kinds = [type(c.body).__name__ for _, c in at.commands() if c.job_id]
    assert [o.status for o in recorded] == ["done"]
    assert kinds == ["Claim", "Outcome", "Ended"]


async def test_a_tool_that_is_not_declared_honours_no_key_and_may_be_sync() -> None:
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> Any:
        return await ctx.effect("refund", lambda idempotency_key: [idempotency_key], key="k")

    ended, at = await outcome_of(app)
    assert ended.result == '["idk of refund/k"]'
    assert at.bodies(Claim)[0].key_lifetime_ms == 0


async def test_the_digest_ignores_the_order_of_arguments_and_nothing_else() -> None:
    app = App("test")
    calls: list[dict[str, Any]] = [
        {"a": 1, "b": {"x": 1, "y": 2}},
        {"b": {"y": 2, "x": 1}, "a": 1},
        {"a": 2},
    ]

    @app.job("job")
    async def handler(ctx: Context) -> None:
        for number, kwargs in enumerate(calls):
            await ctx.effect("t", Tool(), key=str(number), **kwargs)

    _, at = await outcome_of(app)
    one, two, three = (claim.digest for claim in at.bodies(Claim))
    assert one == two != three


async def test_the_digest_of_arguments_stays_what_it_is() -> None:
    """With another digest, each effect that was begun before an upgrade would be refused after.

    The fields of a dataclass are sorted, as those of the dict that a person sees and edits.
    """
    app = App("test")

    @dataclass
    class Line:
        sku: str
        amount: float | None

    @app.job("job")
    async def handler(ctx: Context) -> None:
        at_noon = datetime(2026, 11, 28, 12, tzinfo=UTC)
        lines = [Line("z", 1.10), Line("a", None)]
        await ctx.effect("t", Tool(), key="k", to="é", n=2**64 - 1, when=at_noon, lines=lines)

    _, at = await outcome_of(app)
    text = (
        '{"lines":[{"amount":1.1,"sku":"z"},{"amount":null,"sku":"a"}],'
        '"n":18446744073709551615,"to":"é","when":"2026-11-28T12:00:00+00:00"}'
    )
    assert at.bodies(Claim)[0].digest == hashlib.sha256(text.encode()).digest()


async def test_a_done_effect_gives_its_kept_result_and_is_not_called() -> None:
    tool = Tool()
    ended, at = await outcome_of(
        app_calling(tool), lambda _: {"kind": "done", "result": '{"id": 7}'}
    )
    assert (ended.result, tool.calls, at.bodies(Outcome)) == ('{"id":7}', [], [])


@pytest.mark.parametrize(
    ("reply", "status", "named"),
    [
        ({"kind": "held"}, "failed", "under way in this job already"),
        ({"kind": "refused", "message": "other arguments"}, "failed", "other arguments"),
        ({"kind": "review", "message": "may have been sent"}, "review", "may have been sent"),
        ({"kind": "cancel", "message": "stop it"}, "cancelled", "stop it"),
    ],
)
async def test_a_claim_turned_down_ends_the_run_uncalled(
    reply: dict[str, Any], status: str, named: str
) -> None:
    tool = Tool()
    ended, _ = await outcome_of(app_calling(tool), lambda _: reply)
    assert (ended.status, tool.calls) == (status, [])
    assert named in (ended.error or "")


async def test_no_except_exception_of_a_handler_keeps_a_review_from_ending_the_run() -> None:
    app, went_on = App("test"), []

    @app.job("job")
    async def handler(ctx: Context) -> None:
        for _ in range(3):
            try:
                await ctx.effect("t", Tool(), key="k")
            except Exception:
                went_on.append(1)

    ended, _ = await outcome_of(app, lambda _: {"kind": "review"})
    assert (ended.status, went_on) == ("review", [])


async def test_a_review_in_a_task_of_the_handlers_own_ends_the_run_too() -> None:
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        keep = asyncio.create_task(ctx.effect("t", Tool(), key="k"))
        await asyncio.Event().wait()
        keep.cancel()

    ended, _ = await outcome_of(app, lambda _: {"kind": "review"})
    assert ended.status == "review"


async def test_a_lost_claim_raises_lease_lost_and_is_withdrawn_alone() -> None:
    app, seen = App("test"), asyncio.Event()

    @app.job("job")
    async def handler(ctx: Context) -> None:
        for begin in (ctx.effect("t", Tool(), key="k"), ctx.step("s", lambda: 1), ctx.progress(1)):
            with pytest.raises(LeaseLost):
                await begin
        seen.set()

    async with bench(app, answer=lambda _: {"kind": "lost"}, slots=1) as at:
        at.give()
        await seen.wait()
        await at.idle()
        assert not at.bodies(Ended) + at.bodies(Checkpoint)
        assert [outcome.status for outcome in at.bodies(Outcome)] == ["failed"]


async def test_a_claim_is_repeated_with_its_id_until_it_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "RESEND_SECONDS", 0.02)
    asked: list[Claim] = []

    def third_time(claim: Claim) -> dict[str, Any] | None:
        asked.append(claim)
        return granted(claim) if len(asked) == 3 else None

    tool = Tool()
    ended, _ = await outcome_of(app_calling(tool), third_time)
    assert ended.status == "succeeded"
    assert (len(asked), len({c.claim_id for c in asked}), len(tool.calls)) == (3, 1, 1)


async def test_a_result_that_is_not_json_is_done_all_the_same() -> None:
    ended, at = await outcome_of(app_calling(Tool(object())))
    (outcome,) = at.bodies(Outcome)
    assert (outcome.status, outcome.result) == ("done", None)
    assert ended.status == "failed"
    assert "the result of effect email:send/reply is not JSON" in (ended.error or "")


async def test_a_tool_outside_the_scopes_is_not_claimed() -> None:
    ended, at = await outcome_of(app_calling(Tool(), scopes={"tickets:read"}))
    assert (ended.status, at.bodies(Claim)) == ("failed", [])
    assert "may not use 'email:send': add it to its scopes" in (ended.error or "")


@pytest.mark.parametrize("key", ["", "a\0b", "x" * 513, 7])
async def test_a_key_that_names_nothing_is_refused(key: Any) -> None:
    ended, at = await outcome_of(app_calling(Tool(), key=key))
    assert (ended.status, at.bodies(Claim)) == ("failed", [])
    assert "key=" in (ended.error or "")


async def test_an_argument_that_is_not_json_is_named() -> None:
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> None:
        await ctx.effect("t", Tool(), key="k", text="x", when=object())

    ended, at = await outcome_of(app)
    assert (ended.status, at.bodies(Claim)) == ("failed", [])
    assert "argument 'when' is not JSON" in (ended.error or "")


async def test_an_owner_that_forgets_a_claim_is_asked_again_once_it_is_back() -> None:
    tool = Tool()
    async with bench(app_calling(tool)) as at:
        at.silent = True
        lease = at.give()
        await at.until(lambda: at.bodies(Claim), "the claim")
        at.owner.own(1, 2, 3)
        at.silent = False
        at.owner.own(0, 1, 2, 3)
        assert (await at.ended(lease)).status == "succeeded"
        first, second = at.bodies(Claim)
    assert first == second
    assert len(tool.calls) == 1
