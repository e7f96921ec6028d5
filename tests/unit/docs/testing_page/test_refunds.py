import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from refunds import app, pay_back

from streams import App, Context, PermanentError, RetryAfter, TransientError
from streams.testing import (
    Bench,
    Call,
    DeadLetter,
    Effect,
    FailedRun,
    Refused,
    crash_points,
)

ORDER = {"id": "o-1", "email": "a@shop.io"}
TEXT = "Order o-1 is paid back."


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app, strict=True) as bench:
        bench.fake("payment:refund", returns={"refund": "r-1"})
        bench.fake("email:send", returns={"sent": True})
        yield bench


def test_an_order_is_refunded_once_and_its_customer_told(bench: Bench) -> None:
    job = bench.event("order.cancelled", ORDER, job="refund_order").run()
    assert job.status == "succeeded"
    assert job.result == {"text": TEXT}
    assert job.steps == {"text": TEXT}
    assert job.progress == [{"stage": "written"}]
    assert job.effects == [
        Effect("payment:refund", "order", {"order_id": "o-1"}, "done", {"refund": "r-1"}),
        Effect("email:send", "refunded", {"to": "a@shop.io", "text": TEXT}, "done", {"sent": True}),
    ]
    assert job.calls[0] == Call("payment:refund", "order", {"order_id": "o-1"})


def test_what_is_done_is_not_done_again(bench: Bench) -> None:
    bench.fake("email:send", in_turn=[TransientError("busy"), RetryAfter(60), {"sent": True}])
    job = bench.submit("refund_order", ORDER).run()
    assert (job.status, job.attempts) == ("succeeded", 3)
    assert [call.tool for call in job.calls] == ["payment:refund", *["email:send"] * 3]
    first, second = job.failed_runs
    assert (first, second) == (FailedRun(1, "failed"), FailedRun(2, "failed"))
    assert first.retry_in is not None
    assert 30 <= first.retry_in <= 37.5  # every backoff is spread by up to a quarter
    assert second.error == "RetryAfter: retry after 60 s"


@pytest.mark.parametrize("done", [False, True], ids=["before", "after the tool did it"])
def test_an_unknown_outcome_waits_for_a_person(bench: Bench, done: bool) -> None:
    job = bench.submit("refund_order", ORDER).crash_in("payment:refund", done=done).run()
    assert job.status == "needs_review"
    assert job.effects == [Effect("payment:refund", "order", {"order_id": "o-1"}, "review")]
    assert len(job.calls) == done
    bench.advance(86_400)
    assert job.status == "needs_review"


@pytest.mark.parametrize("done", [False, True], ids=["before", "after the tool did it"])
def test_an_unknown_outcome_is_repeated_under_the_key_that_the_tool_honours(
    bench: Bench, done: bool
) -> None:
    job = bench.submit("refund_order", ORDER).crash_in("email:send", done=done).run()
    assert job.status == "succeeded"
    keys = [call.idempotency_key for call in job.calls if call.tool == "email:send"]
    assert keys == [job.effects[1].idempotency_key] * (1 + done)
    assert job.failed_runs == [FailedRun(1, "lost")]


def test_past_its_key_lifetime_a_person_decides(bench: Bench) -> None:
    bench.fake("email:send", in_turn=[ConnectionResetError(), RetryAfter(90_000)])
    job = bench.submit("refund_order", ORDER).run(runs=2)
    assert job.effects[1].status == "unknown"
    assert job.run().status == "needs_review"


def test_a_person_says_that_it_was_done(bench: Bench) -> None:
    job = bench.submit("refund_order", ORDER).crash_in("payment:refund", done=True).run()
    job.settle_done("payment:refund/order", {"refund": "r-7"}, note="asked the bank").run()
    assert job.status == "succeeded"
    assert job.effects[0].result == {"refund": "r-7"}
    assert (job.effects[0].settled_by, job.effects[0].note) == ("bench", "asked the bank")
    assert [call.tool for call in job.calls] == ["payment:refund", "email:send"]


def test_a_person_says_that_it_was_not_done(bench: Bench) -> None:
    job = bench.submit("refund_order", ORDER).crash_in("payment:refund").run()
    job.settle_not_done("payment:refund/order").run()
    assert job.status == "succeeded"
    assert [call.tool for call in job.calls] == ["payment:refund", "email:send"]


def test_what_is_known_is_not_settled(bench: Bench) -> None:
    job = bench.submit("refund_order", ORDER).run()
    with pytest.raises(Refused) as refusal:
        job.settle_not_done("payment:refund/order")
    assert refusal.value.reason == "already_settled"


def test_wherever_the_worker_dies_an_order_is_refunded_and_mailed_once() -> None:
    for crash in crash_points():
        with Bench(app, strict=True, crash=crash) as bench:
            bench.fake("payment:refund", returns={"refund": "r-1"})
            bench.fake("email:send", returns={"sent": True})
            job = bench.submit("refund_order", ORDER).run()
            if job.status == "needs_review":  # a person looks into the payment service
                settle = job.settle_done if job.happened else job.settle_not_done
                settle("payment:refund/order").run()
            assert job.status == "succeeded"
            assert [call.tool for call in job.happened] == ["payment:refund", "email:send"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (TransientError("busy, nothing was done"), "failed"),
        (PermanentError("no such order"), "failed"),
        (ConnectionRefusedError(), "failed"),
        (ConnectionResetError(), "unknown"),
        (TimeoutError(), "unknown"),
    ],
)
def test_an_error_says_whether_it_was_done(bench: Bench, error: Exception, outcome: str) -> None:
    bench.fake("payment:refund", raises=error)
    job = bench.submit("refund_order", ORDER).run(runs=1)
    assert [effect.status for effect in job.effects] == [outcome]


def test_a_job_that_fails_stands_in_the_dead_letters(bench: Bench) -> None:
    bench.fake("payment:refund", raises=PermanentError("no such order"))
    job = bench.submit("refund_order", ORDER).run()
    assert job.status == "failed"
    assert job.dead_letter == DeadLetter("permanent_error")
    bench.fake("payment:refund", raises=TransientError("busy"))
    job = bench.submit("refund_order", ORDER).run()
    assert (job.status, job.attempts) == ("dead", 3)
    assert job.dead_letter == DeadLetter("attempts_exhausted")


def test_a_call_that_takes_too_long_is_unknown(bench: Bench) -> None:
    bench.fake("payment:refund", returns={"refund": "r-1"}, takes=61)
    job = bench.submit("refund_order", ORDER).run()
    assert job.status == "needs_review"
    assert job.failed_runs[0] == FailedRun(1, "timeout")


def test_a_cancelled_job_begins_nothing_more(bench: Bench) -> None:
    job = bench.submit("refund_order", ORDER).pause_in("payment:refund")
    job.cancel("the customer called").run()
    assert (job.status, job.error) == ("cancelled", "Cancelled: the customer called")
    assert job.effects == [Effect("payment:refund", "order", {"order_id": "o-1"}, "unknown")]
    job.settle_not_done("payment:refund/order")  # a replay would call the tool again
    assert (job.status, job.effects[0].status) == ("cancelled", "failed")


def test_a_worker_without_its_lease_begins_nothing_more(bench: Bench) -> None:
    job = bench.submit("refund_order", ORDER).pause_in(step="text", done=True)
    bench.disconnect()
    bench.advance(31)  # the lease's term is 30 s
    assert job.calls == []
    bench.connect()
    assert job.run().status == "succeeded"
    assert [run.kind for run in job.failed_runs] == ["lost"]
    assert len(job.calls) == 2


def test_what_a_worker_did_before_it_lost_its_lease_counts(bench: Bench) -> None:
    bench.fake("payment:refund", returns={"refund": "r-1"}, takes=10)
    job = bench.submit("refund_order", ORDER)
    bench.advance(5)
    bench.disconnect()  # the tool answers, and nobody hears of it
    bench.advance(60)
    bench.connect()
    assert job.run().status == "succeeded"
    assert [call.tool for call in job.calls] == ["payment:refund", "email:send"]


def test_a_step_that_is_done_is_kept_and_one_that_is_not_runs_again(bench: Bench) -> None:
    job = bench.submit("refund_order", ORDER).crash_in(step="text", done=True)
    assert job.steps == {}
    job.crash_in("payment:refund")
    assert job.steps == {"text": TEXT}


async def two_arguments(ctx: Context) -> None:
    await ctx.effect("payment:refund", pay_back, key="1", order_id="o-1")
    await ctx.effect("payment:refund", pay_back, key="1", order_id="o-2")


async def two_at_once(ctx: Context) -> None:
    call = partial(ctx.effect, "payment:refund", pay_back, key="1", order_id="o-1")
    await asyncio.gather(call(), call())


@pytest.mark.parametrize("handler", [two_arguments, two_at_once])
def test_one_key_is_one_call(handler: Callable[[Context], Awaitable[None]]) -> None:
    app = App("twice")
    app.job("pay_twice")(handler)
    with Bench(app, strict=True) as bench:
        bench.fake("payment:refund", takes=1)
        job = bench.submit("pay_twice").run()
        assert (job.status, len(job.calls)) == ("failed", 1)
        assert job.dead_letter == DeadLetter("permanent_error")


def refunds(bench: Bench) -> int:
    return [call.tool for call in bench.calls].count("payment:refund")


def test_two_jobs_about_one_order_refund_it_twice(bench: Bench) -> None:
    first = bench.submit("refund_order", ORDER).run()
    second = bench.submit("refund_order", ORDER).run()
    assert [job.effects[0].action for job in (first, second)] == ["payment:refund/order"] * 2
    assert refunds(bench) == 2


def test_two_submissions_with_one_dedup_key_refund_it_once(bench: Bench) -> None:
    first = bench.submit("refund_order", ORDER, key="refund o-1").run()
    assert bench.submit("refund_order", ORDER, key="refund o-1").run() == first
    assert refunds(bench) == 1


def test_two_events_with_one_dedup_key_refund_it_once(bench: Bench) -> None:
    for note in ("asked by mail", "asked by phone"):
        body = ORDER | {"note": note}
        bench.event("order.cancelled", body, job="refund_order", key="order.cancelled o-1").run()
    assert refunds(bench) == 1


async def refund_once(ctx: Context) -> Any:
    order = ctx.input["id"]
    return await ctx.effect(
        "payment:refund", pay_back, key=order, once_per="tenant", order_id=order
    )


@pytest.fixture
def once() -> Iterator[Bench]:
    app = App("once")
    app.job("refund_once")(refund_once)
    with Bench(app, strict=True) as bench:
        bench.fake("payment:refund", returns={"refund": "r-1"}, takes=10)
        yield bench


def test_once_per_tenant_two_jobs_refund_an_order_once(once: Bench) -> None:
    first, second = once.submit("refund_once", ORDER), once.submit("refund_once", ORDER)
    once.advance(5)
    assert [job.status for job in (first, second)] == ["running", "scheduled"]
    assert first.run().result == second.run().result == {"refund": "r-1"}
    assert refunds(once) == 1
    assert (second.attempts, second.effects[0].job_id) == (1, first.id)


@pytest.mark.parametrize("done", [False, True], ids=["before", "after the tool did it"])
def test_once_per_tenant_one_answer_of_a_person_is_for_all_jobs(once: Bench, done: bool) -> None:
    first = once.submit("refund_once", ORDER).crash_in("payment:refund", done=done).run()
    second = once.submit("refund_once", ORDER).run()
    assert [job.status for job in (first, second)] == ["needs_review"] * 2
    second.settle_done("@tenant/payment:refund/o-1", {"refund": "r-7"})
    assert first.run().result == second.run().result == {"refund": "r-7"}
    assert refunds(once) == done


def test_a_replay_works_in_the_old_scope(bench: Bench) -> None:
    bench.fake("email:send", raises=PermanentError("no such mailbox"))
    job = bench.submit("refund_order", ORDER).run()
    bench.fake("email:send", returns={"sent": True})
    replayed = job.replay(note="the mailbox is there now").run()
    assert replayed.status == "succeeded"
    assert [call.tool for call in replayed.calls] == ["email:send"]
    assert replayed.effects[0] == job.effects[0]


def test_a_replay_in_a_fresh_scope_begins_everything_again(bench: Bench) -> None:
    bench.fake("email:send", raises=PermanentError("no such mailbox"))
    job = bench.submit("refund_order", ORDER).run()
    bench.fake("email:send", returns={"sent": True})
    with pytest.raises(Refused, match="payment:refund/order"):
        job.replay(fresh_scope=True)
    replayed = job.replay(fresh_scope=True, repeat_effects=["payment:refund/order"]).run()
    assert [call.tool for call in replayed.calls] == ["payment:refund", "email:send"]
    assert replayed.effects[0].idempotency_key != job.effects[0].idempotency_key


def test_a_job_may_not_use_a_tool_outside_its_scopes() -> None:
    with Bench(app, strict=True) as bench:
        job = bench.submit("write_note", {"text": "hello"}).run()
        assert (job.status, job.effects) == ("failed", [])
        assert job.error is not None
        assert "may not use 'crm:note'" in job.error


def test_an_order_that_is_withdrawn_is_not_refunded(bench: Bench) -> None:
    withdrawn = {"status": "withdrawn"}
    job = bench.event("order.cancelled", ORDER, job="refund_order", attributes=withdrawn).run()
    assert (job.status, job.error) == ("cancelled", "preflight: no longer wanted")


def test_the_routes_give_an_event_its_job() -> None:
    with Bench(app, topology=Path(__file__).with_name("refunds.yaml")) as bench:
        bench.fake("payment:refund", returns={"refund": "r-1"})
        bench.fake("email:send", returns={"sent": True})
        job = bench.event("order.cancelled", ORDER, source="shop", key="e-1").run()
        assert job.status == "succeeded"
        assert bench.event("order.cancelled", ORDER, source="shop", key="e-1") == job


@pytest.mark.asyncio
async def test_in_an_event_loop(bench: Bench) -> None:
    job = bench.submit("refund_order", ORDER)
    await asyncio.to_thread(job.run)
    assert job.status == "succeeded"
