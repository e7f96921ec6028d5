"""Approvals in the bench: what a handler gets of a person's decision, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from streams import App, ApprovalExpired, Context, Decision
from streams.testing import Bench, Refused

app = App("desk")
app.tool("pay:refund", key_lifetime=86_400)
app.tool("mail:send", key_lifetime=86_400)


def pay(charge: str, amount: int, idempotency_key: str) -> dict[str, Any]:
    return {"charge": charge, "amount": amount}


def _told(decision: Decision) -> list[Any]:
    return [decision.approved, decision.by, decision.note, decision.edit]


def _effect(amount: int) -> dict[str, Any]:
    arguments = {"charge": "ch_1", "amount": amount}
    return {"tool": "pay:refund", "key": "ch_1", "arguments": arguments}


@app.job("refund")
async def refund(ctx: Context) -> list[Any]:
    amount = ctx.input["amount"]
    decision = await ctx.approval(
        "refund", prompt="Refund ch_1?", effects=[_effect(amount)], timeout=3600
    )
    if decision.approved:
        paid = ctx.input.get("pays", amount)
        arguments = {"charge": "ch_1", "amount": paid} | (decision.edit or {})
        await ctx.effect("pay:refund", pay, key="ch_1", **arguments)
    return _told(decision)


@app.job("plain")
async def plain(ctx: Context) -> list[Any]:
    return _told(await ctx.approval("ok", prompt="Go on?", timeout=3600, **ctx.input))


@app.job("raises")
async def raises(ctx: Context) -> str:
    try:
        await ctx.approval("ok", prompt="Go on?", timeout=60, on_timeout="raise")
    except ApprovalExpired:
        return "nobody came"
    return "decided"


@app.job("either")
async def either(ctx: Context) -> list[Any]:
    came, value = await ctx.first(decision=ctx.approval("ok", prompt="Go on?"), time=ctx.sleep(60))
    return [came, value and value.approved]


@app.job("both")
async def both(ctx: Context) -> list[bool]:
    found = await ctx.all(
        ctx.approval("one", prompt="?"), ctx.approval("two", prompt="?", timeout=60)
    )
    return [decision.approved for decision in found]


@app.job("changed")
async def changed(ctx: Context) -> str:
    await ctx.approval("ok", prompt=f"Go on in attempt {ctx.attempt}?")
    await ctx.sleep(10)
    raise ValueError


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app) as bench:
        yield bench


def test_a_job_waits_for_its_decision_and_goes_on_with_it(bench: Bench) -> None:
    job = bench.submit("refund", {"amount": 82_000}).run()
    assert (job.status, job.waits, job.attempts) == ("waiting", ["approval[refund]"], 0)
    bench.crash_worker()
    job.approve("refund", note="as agreed", by="ann").run()
    assert job.result == [True, "ann", "as agreed", None]
    assert [call.args for call in job.calls] == [{"charge": "ch_1", "amount": 82_000}]


def test_a_rejection_is_given_to_the_handler(bench: Bench) -> None:
    job = bench.submit("refund", {"amount": 82_000}).run()
    job.reject("refund", note="too much", by="ann").run()
    assert (job.result, job.calls) == ([False, "ann", "too much", None], [])


def test_an_edit_is_given_to_the_handler(bench: Bench) -> None:
    job = bench.submit("refund", {"amount": 82_000}).run()
    job.approve("refund", edit={"amount": 41_000}).run()
    assert job.result == [True, "bench", "", {"amount": 41_000}]
    assert [call.args["amount"] for call in job.calls] == [41_000]


def test_an_edit_that_fits_no_effect_is_refused(bench: Bench) -> None:
    job = bench.submit("refund", {"amount": 82_000}).run()
    with pytest.raises(Refused, match="no effect"):
        job.approve("refund", edit=[{"tool": "x", "key": "y", "arguments": {}}])
    assert job.status == "waiting"


def test_time_rejects_or_raises(bench: Bench) -> None:
    one = bench.submit("plain", {}).run()
    two = bench.submit("raises", {}).run()
    bench.advance(3_601)
    assert one.run().result == [False, None, "expired", None]
    assert two.run().result == "nobody came"
    with pytest.raises(Refused, match="expired"):
        one.approve("ok")


def test_the_first_decision_counts(bench: Bench) -> None:
    job = bench.submit("plain", {}).run()
    job.approve("ok", by="ann")
    with pytest.raises(Refused, match="approved by ann at "):
        job.reject("ok", by="bob")
    assert job.run().result[:2] == [True, "ann"]


def test_several_people_must_approve_and_none_twice(bench: Bench) -> None:
    job = bench.submit("plain", {"quorum": 2}).run()
    job.approve("ok", by="ann")
    with pytest.raises(Refused, match="ann has approved"):
        job.approve("ok", by="ann")
    assert job.status == "waiting"
    assert job.approve("ok", by="bob").run().result[:2] == [True, "bob"]


def test_the_submitter_may_not_decide(bench: Bench) -> None:
    job = bench.submit("plain", {"approvers": "not_submitter"}).run()
    submitter = job.record.submitted_by or ""
    with pytest.raises(Refused, match="ask somebody else"):
        job.approve("ok", by=submitter)
    assert job.approve("ok", by="ann").run().result[:2] == [True, "ann"]


def test_an_approval_stands_beside_other_waits(bench: Bench) -> None:
    one, two = bench.submit("either").run(), bench.submit("both").run()
    two.approve("one")
    assert (one.status, two.status) == ("waiting", "waiting")
    bench.advance(61)
    assert (one.run().result, two.run().result) == (["time", None], [True, False])
    with pytest.raises(Refused, match="is cancelled"):
        one.approve("ok")


def test_other_arguments_under_the_same_key_fail_closed(bench: Bench) -> None:
    job = bench.submit("changed").run()
    job.approve("ok").run()
    bench.advance(11)
    assert "WaitRefused" in (job.run(runs=2).error or "")


def test_a_cancelled_job_asks_for_nothing(bench: Bench) -> None:
    job = bench.submit("plain", {}).run()
    job.cancel()
    with pytest.raises(Refused, match="is cancelled"):
        job.approve("ok")


def test_nothing_that_is_asked_is_readable_on_any_topic(bench: Bench) -> None:
    bench.event("order", {"a": 1}, job="plain").run()
    job = bench.submit("refund", {"amount": 82_000}).run()
    job.approve("refund", edit={"charge": "secret-charge"}, note="").run()
    topics = ("approvals", "jobs", "jobs.commands", "dispatcher.checkpoints.changelog")
    written = [r.value for t in topics for r in bench._behind.pipeline.output(t) if r.value]
    told = b"".join(written)
    assert b"Refund ch_1?" not in told
    assert b"secret-charge" not in b"".join(
        r.value or b"" for r in bench._behind.pipeline.output("approvals")
    )
