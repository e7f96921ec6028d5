"""An effect that counts beyond its job, in a bench: two jobs, one call of the tool."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.bench_apps import tool

from streams import App, Context, Retry, TransientError
from streams.testing import Bench, Effect, Refused

ACTION = "@tenant/plain/ch_1"
BOTH = pytest.mark.parametrize("done", [False, True], ids=["before", "after"])


def shop(**tools: Any) -> App:
    app = App("shop")
    app.tool("keyed", key_lifetime=86_400)
    for name, fields in tools.items():
        app.tool(name, **fields)

    @app.job("refund", retry=Retry(3, (10,)), timeout=60)
    async def refund(ctx: Context) -> Any:
        wanted = {"tool": "plain", "key": "ch_1", "once_per": "tenant", "n": 1} | ctx.input
        return await ctx.effect(wanted.pop("tool"), tool, **wanted)

    return app


def test_two_jobs_about_one_charge_refund_it_once() -> None:
    with Bench(shop(), strict=True) as bench:
        bench.fake("plain", returns={"refund": "r-1"})
        first, second = bench.submit("refund").run(), bench.submit("refund").run()
        assert len(bench.calls) == 1
        assert first.result == second.result == {"refund": "r-1"}
        (effect,) = second.effects
        assert effect == Effect("plain", "ch_1", {"n": 1}, "done", {"refund": "r-1"})
        assert (effect.once_per, effect.action, effect.job_id) == ("tenant", ACTION, first.id)


@pytest.mark.parametrize("other", [{"once_per": "job"}, {"once_per": "vip"}, {"key": "ch_2"}])
def test_another_scope_or_key_is_another_effect(other: dict[str, Any]) -> None:
    with Bench(shop()) as bench:
        bench.submit("refund").run()
        assert bench.submit("refund", other).run().status == "succeeded"
        assert len({call.idempotency_key for call in bench.calls}) == 2


def test_another_tenant_has_its_own() -> None:
    with Bench(shop()) as bench:
        bench.submit("refund").run()
        bench.submit("refund", tenant="globex").run()
        assert len({call.idempotency_key for call in bench.calls}) == 2


def test_other_arguments_fail_and_name_the_job() -> None:
    with Bench(shop()) as bench:
        first = bench.submit("refund").run()
        job = bench.submit("refund", {"n": 2}).run()
        assert (job.status, len(bench.calls)) == ("failed", 1)
        assert first.id in (job.error or "")


def test_a_second_job_waits_without_a_slot_and_without_an_attempt() -> None:
    with Bench(shop()) as bench:
        bench.fake("plain", returns="r", takes=40)
        first, second = bench.submit("refund"), bench.submit("refund")
        bench.advance(20)
        assert [job.status for job in (first, second)] == ["running", "scheduled"]
        assert first.id in (second.error or "")
        assert (second.run().result, second.attempts, len(bench.calls)) == ("r", 1, 1)
        assert (second.failed_runs, bench.seconds < 47) == ([], True)


def test_a_job_that_waits_lets_its_other_calls_end() -> None:
    app = shop()

    @app.job("both", timeout=60)
    async def both(ctx: Context) -> Any:
        mine = ctx.effect("slow", tool, key="mine", n=1)
        theirs = ctx.effect("plain", tool, key="ch_1", once_per="tenant", n=1)
        return await asyncio.gather(mine, theirs)

    with Bench(app) as bench:
        bench.fake("plain", returns="r", takes=10)
        bench.fake("slow", returns="s", takes=15)
        first = bench.submit("refund")
        bench.advance(2)
        second = bench.submit("both").run()
        assert (second.status, second.result, second.attempts) == ("succeeded", ["s", "r"], 1)
        assert [call.tool for call in second.calls] == ["slow"]
        assert first.run().result == "r"


def test_what_the_first_did_not_do_the_second_does() -> None:
    with Bench(shop()) as bench:
        bench.fake("plain", in_turn=[TransientError("busy"), "r"])
        first = bench.submit("refund").run(runs=1)
        second = bench.submit("refund").run()
        assert (second.result, first.run().result, len(bench.calls)) == ("r", "r", 2)
        assert first.effects[0].job_id == second.id


@BOTH
def test_a_crash_asks_one_person_for_all_jobs(done: bool) -> None:
    with Bench(shop()) as bench:
        first = bench.submit("refund").crash_in("plain", done=done).run()
        second = bench.submit("refund").run()
        assert [job.status for job in (first, second)] == ["needs_review"] * 2
        second.settle_done(ACTION, {"refund": "r-7"})
        assert [job.run().result for job in (first, second)] == [{"refund": "r-7"}] * 2
        assert len(bench.calls) == done
        with pytest.raises(Refused) as refusal:
            first.settle_not_done(ACTION)
        assert refusal.value.reason == "already_settled"


@BOTH
def test_after_a_crash_another_job_repeats_it_under_the_key(done: bool) -> None:
    keyed = {"tool": "keyed"}
    with Bench(shop()) as bench:
        first = bench.submit("refund", keyed).crash_in("keyed", done=done)
        second = bench.submit("refund", keyed).run()
        assert first.run().status == second.status == "succeeded"
        assert len(bench.calls) == 1 + done
        assert len({call.idempotency_key for call in bench.calls}) == 1


def test_it_is_kept_for_as_long_as_the_tool_says() -> None:
    with Bench(shop(plain={"keep": 86_400})) as bench:
        first = bench.submit("refund").run()
        bench.advance(86_000)
        assert bench.submit("refund").run().calls == []
        bench.advance(500)
        again = bench.submit("refund").run()
        assert [call.idempotency_key for call in again.calls] == [
            first.effects[0].idempotency_key
        ], "a tool that still knows the key does nothing twice"
        assert first.effects[0].status == "done", "the job keeps what it knew"


def test_a_replay_in_a_fresh_scope_does_not_repeat_it() -> None:
    with Bench(shop()) as bench:
        bench.fake("plain", returns="r")
        app_error = bench.submit("refund", {"tool": "later"})
        bench.fake("later", raises=ValueError("no"))
        assert app_error.run().status == "needs_review"
        assert bench.submit("refund").run().result == "r"
        replay = app_error.replay(fresh_scope=True).run()
        assert replay.status == "needs_review", "it asks the same person about the same effect"
        assert replay.effects[0].job_id == app_error.id


@pytest.mark.parametrize("name", ["", "a b", "@tenant", 7, "x" * 129])
def test_a_scope_has_a_name(name: object) -> None:
    with Bench(shop()) as bench:
        job = bench.submit("refund", {"once_per": name}).run()
        assert (job.status, bench.calls) == ("failed", [])
        assert "once_per" in (job.error or "")


@pytest.mark.parametrize(
    ("before", "after"), [("job", "tenant"), ("tenant", "job"), ("refunds", "tenant")]
)
def test_new_code_with_another_scope_does_not_begin_again_what_its_job_has_begun(
    before: str, after: str
) -> None:
    app, scope = App("shop"), [before]

    @app.job("refund", retry=Retry(3, (10,)))
    async def refund(ctx: Context) -> None:
        await ctx.effect("plain", tool, key="ch_1", once_per=scope[0], n=1)
        raise TransientError("later")

    with Bench(app) as bench:
        job = bench.submit("refund").run(runs=1)
        scope[0] = after
        assert (job.run().status, len(bench.calls)) == ("failed", 1)
        assert f"once_per='{before}'" in (job.error or "")
        replay = job.replay().run()
        assert (replay.status, len(bench.calls)) == ("failed", 1)


def test_new_code_with_another_scope_does_what_was_not_done() -> None:
    app, scope = App("shop"), ["job"]

    @app.job("refund", retry=Retry(3, (10,)))
    async def refund(ctx: Context) -> Any:
        return await ctx.effect("plain", tool, key="ch_1", once_per=scope[0], n=1)

    with Bench(app) as bench:
        bench.fake("plain", in_turn=[TransientError("busy"), "r"])
        job = bench.submit("refund").run(runs=1)
        scope[0] = "tenant"
        assert (job.run().result, len(bench.calls)) == ("r", 2)


def test_one_key_has_one_scope_in_a_job() -> None:
    app = App("shop")

    @app.job("twice")
    async def twice(ctx: Context) -> None:
        await ctx.effect("plain", tool, key="ch_1", n=1)
        await ctx.effect("plain", tool, key="ch_1", once_per="tenant", n=1)

    with Bench(app) as bench:
        job = bench.submit("twice").run()
        assert (job.status, len(bench.calls)) == ("failed", 1)
        assert "once_per='job'" in (job.error or "")
