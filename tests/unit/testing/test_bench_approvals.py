"""Approvals in the bench: what a handler gets of a person's decision, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams import App, ApprovalExpired, ApprovalRejected, Context, Decision
from streams.middleware import Approve, EffectCall
from streams.testing import Bench, Refused
from streams.user_json import digest

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


def test_a_decision_under_another_key_is_refused_with_the_keys_that_the_job_asks_for(
    bench: Bench,
) -> None:
    job = bench.submit("refund", ASKED)
    with pytest.raises(Refused, match="has no approval 'refund': it asks for none: let it run"):
        job.reject("refund")
    job.run()
    with pytest.raises(Refused, match=r"approval_unknown: .* it asks for 'refund'"):
        job.approve("pay:refund/ch_1")


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


@app.job("pays")
async def pays(ctx: Context) -> Any:
    """It knows nothing of approvals."""
    await ctx.sleep(1)
    first = await ctx.effect("pay:refund", pay, key="ch_1", **ctx.input)
    await ctx.step("note", lambda: "noted")
    second = await ctx.effect("mail:send", pay, key="m", charge="x", amount=1)
    return [first, second]


@app.job("mails")
async def mails(ctx: Context) -> Any:
    return await ctx.effect("mail:send", pay, key="m", charge="x", amount=1)


RULES = """
routes: []
approvals: [{tool: "pay:*", job_type: pays, tenant: acme}]
"""
DRAFTS = """
routes: [{match: {event_type: order}, job: mails, draft: true}]
job_types: [{name: refund, draft: true}]
"""
ASKED = {"charge": "ch_1", "amount": 82_000}
ACTION = "pay:refund/ch_1"


def with_topology(tmp_path: Path, text: str) -> Bench:
    path = tmp_path / "topology.yaml"
    path.write_text(text)
    return Bench(app, topology=path)


def test_an_approval_names_the_policy_of_the_application_that_wants_it() -> None:
    own = App("desk")
    own.job("mails")(mails)

    @own.policy
    async def mails_are_read(call: EffectCall) -> Approve:
        return Approve("somebody reads them first")

    with Bench(own) as bench:
        job = bench.submit("mails").run()
        (approval,) = bench._behind.pipeline.approvals(job.record)
        assert approval.policy == (
            "policy mails_are_read wants an approval: somebody reads them first"
        )
        assert job.approve("mail:send/m").run().status == "succeeded"


def test_an_approval_of_82_000_begins_no_effect_of_820_000(bench: Bench) -> None:
    job = bench.submit("refund", {"amount": 82_000, "pays": 820_000}).run()
    job.approve("refund").run()
    asked, claimed = (digest({"charge": "ch_1", "amount": n}).hex() for n in (82_000, 820_000))
    assert (job.status, job.calls) == ("failed", [])
    assert asked in (job.error or "")
    assert claimed in (job.error or "")


def test_after_an_edit_the_arguments_that_were_asked_for_are_refused(bench: Bench) -> None:
    @app.job("stubborn")
    async def stubborn(ctx: Context) -> None:
        await ctx.approval("refund", effects=[_effect(82_000)])
        await ctx.effect("pay:refund", pay, key="ch_1", charge="ch_1", amount=82_000)

    bench.deploy(app)
    job = bench.submit("stubborn").run()
    job.approve("refund", edit={"amount": 41_000}).run()
    assert (job.status, job.calls) == ("failed", [])
    assert "as they were edited" in (job.error or "")


def test_a_handler_that_ignores_a_rejection_begins_nothing(bench: Bench) -> None:
    @app.job("deaf")
    async def deaf(ctx: Context) -> None:
        await ctx.approval("refund", effects=[_effect(82_000)])
        await ctx.effect("pay:refund", pay, key="ch_1", charge="ch_1", amount=82_000)

    bench.deploy(app)
    job = bench.submit("deaf").run()
    job.reject("refund", note="too much", by="ann").run()
    assert (job.status, job.calls) == ("failed", [])
    assert "rejected by ann: too much" in (job.error or "")


def test_an_effect_whose_decision_is_not_awaited_does_not_begin(bench: Bench) -> None:
    @app.job("hasty")
    async def hasty(ctx: Context) -> None:
        decision = ctx.approval("refund", effects=[_effect(82_000)])
        await ctx.effect("pay:refund", pay, key="ch_1", charge="ch_1", amount=82_000)
        await decision

    bench.deploy(app)
    job = bench.submit("hasty").run()
    assert (job.status, job.calls) == ("failed", [])
    assert "approval 'refund' has no decision: await it" in (job.error or "")


def test_an_effect_that_nobody_decided_about_when_another_wait_ended_does_not_begin(
    bench: Bench,
) -> None:
    @app.job("tired")
    async def tired(ctx: Context) -> None:
        asked = ctx.approval("refund", effects=[_effect(82_000)])
        await ctx.first(decision=asked, time=ctx.sleep(60))
        await ctx.effect("pay:refund", pay, key="ch_1", charge="ch_1", amount=82_000)

    bench.deploy(app)
    job = bench.submit("tired").run()
    bench.advance(61)
    assert (job.run().status, job.calls) == ("failed", [])


def test_a_rule_of_the_topology_asks_for_a_handler_that_does_not(tmp_path: Path) -> None:
    with with_topology(tmp_path, RULES) as bench:
        job = bench.submit("pays", ASKED).run()
        bench.advance(2)
        job.run()
        assert (job.status, job.waits, job.calls) == ("waiting", [ACTION], [])
        bench.crash_worker()
        job.approve(ACTION).run()
        assert [call.tool for call in job.calls] == ["pay:refund", "mail:send"]
        assert (job.status, job.result[0]["amount"]) == ("succeeded", 82_000)
        other = bench.submit("pays", ASKED, tenant="other").run()
        bench.advance(2)
        assert other.run().status == "succeeded"


def test_an_edited_proposal_runs_exactly_the_arguments_of_the_edit(tmp_path: Path) -> None:
    with with_topology(tmp_path, RULES) as bench:
        job = bench.submit("pays", ASKED).run()
        bench.advance(2)
        job.run().approve(ACTION, edit={"amount": 41_000})
        job.crash_in("pay:refund", done=True).run()
        assert [call.args for call in job.calls if call.tool == "pay:refund"] == [
            {"charge": "ch_1", "amount": 41_000}
        ] * 2
        assert len({c.idempotency_key for c in job.calls if c.tool == "pay:refund"}) == 1
        assert job.result[0] == {"charge": "ch_1", "amount": 41_000}


def test_a_rejected_proposal_ends_the_job(tmp_path: Path) -> None:
    with with_topology(tmp_path, RULES) as bench:
        job = bench.submit("pays", ASKED).run()
        bench.advance(2)
        job.run().reject(ACTION, note="no", by="ann").run()
        assert (job.status, job.calls) == ("failed", [])
        assert (job.error or "").startswith("ApprovalRejected: ")
        assert "was not approved by ann: no" in (job.error or "")


def test_a_handler_goes_another_way_when_people_reject(tmp_path: Path) -> None:
    async def careful(ctx: Context) -> Any:
        try:
            await ctx.effect("pay:refund", pay, key="ch_1", charge="ch_1", amount=82_000)
        except ApprovalRejected:
            return "asked for less"

    topology = tmp_path / "topology.yaml"
    topology.write_text(RULES)
    app = App("careful")
    app.job("pays")(careful)
    with Bench(app, topology=topology) as bench:
        job = bench.submit("pays").run().reject(ACTION).run()
        assert (job.status, job.result, job.calls) == ("succeeded", "asked for less", [])


def test_each_effect_of_a_draft_waits_for_a_person(tmp_path: Path) -> None:
    with with_topology(tmp_path, DRAFTS) as bench:
        job = bench.event("order", {}).run()
        assert (job.status, job.calls) == ("waiting", [])
        job.approve("mail:send/m").run()
        assert (job.status, len(job.calls)) == ("succeeded", 1)
        refund_ = bench.submit("refund", {"amount": 82_000}).run()
        refund_.approve("refund").run()
        assert (refund_.status, len(refund_.calls)) == ("succeeded", 1)


def test_the_effects_of_a_draft_run_one_after_the_other(tmp_path: Path) -> None:
    with with_topology(tmp_path, DRAFTS.replace("refund", "pays")) as bench:
        job = bench.submit("pays", ASKED).run()
        bench.advance(2)
        job.run().approve(ACTION).run()
        assert (job.status, [c.tool for c in job.calls]) == ("waiting", ["pay:refund"])
        job.approve("mail:send/m").run()
        assert (job.status, [c.tool for c in job.calls]) == (
            "succeeded",
            ["pay:refund", "mail:send"],
        )
