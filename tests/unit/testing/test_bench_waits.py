"""Waits in a bench: an agent stops without a slot, and goes on without a race."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streams import App, Context, JobFailed, WaitRefused, WaitTimeout
from streams.testing import Bench

HOUR = 3_600
ANSWER = {"event_type": "ticket.answered", "subject": "t1"}


def send(idempotency_key: str, **kwargs: Any) -> dict[str, Any]:
    return {"sent": True}


def app_of(**handlers: Any) -> App:
    app = App("support")
    for name, handler in handlers.items():
        app.job(name)(handler)
    return app


async def follow_up(ctx: Context) -> Any:
    """The follow-up of four hours that an answer cancels."""
    await ctx.effect("mail", send, key="ask")
    name, event = await ctx.first(answered=ctx.wait_for_event(ANSWER), late=ctx.sleep(4 * HOUR))
    if name == "late":
        await ctx.effect("mail", send, key="remind")
    return [name, event and event.attributes]


def test_an_answer_ends_the_wait_and_its_timer() -> None:
    with Bench(app_of(follow_up=follow_up)) as bench:
        job = bench.event("ticket.created", {"n": 1}, job="follow_up").run()
        assert (job.status, job.attempts, job.waits) == ("waiting", 0, ["event", "sleep"])
        bench.advance(3 * HOUR)
        bench.deliver("ticket.answered", {"ok": 1}, subject="t1", attributes={"by": "ann"})
        assert job.run().result == ["answered", {"by": "ann"}]
        assert ([call.key for call in job.calls], job.attempts) == (["ask"], 1)


def test_without_an_answer_the_time_goes_on() -> None:
    with Bench(app_of(follow_up=follow_up)) as bench:
        job = bench.event("ticket.created", {"n": 1}, job="follow_up").run()
        bench.advance(4 * HOUR + 1)
        assert job.run().result == ["late", None]
        assert [call.key for call in job.calls] == ["ask", "remind"]


def test_an_event_that_comes_before_the_wait_is_found() -> None:
    with Bench(app_of(follow_up=follow_up)) as bench:
        job = bench.event("ticket.created", {"n": 1}, job="follow_up")
        job.pause_in("mail", done=True)
        bench.deliver("ticket.answered", subject="t1")
        assert job.run().result == ["answered", {}]


@pytest.mark.parametrize("done", [False, True])
def test_a_crash_beside_a_wait_repeats_no_effect(done: bool) -> None:
    with Bench(app_of(follow_up=follow_up)) as bench:
        bench.fake("mail", returns={"sent": True})
        job = bench.event("ticket.created", {"n": 1}, job="follow_up").run()
        bench.crash_worker()
        job.crash_in("mail/remind", done=done)
        assert job.run().status == "needs_review", "whether it was sent is not known"
        job.settle_done("mail/remind", {"sent": True})
        assert job.run().result == ["late", None]


async def loop(ctx: Context) -> Any:
    found = []
    for _ in range(3):
        event = await ctx.wait_for_event(ANSWER | {"event_type": "*"})
        found.append([event.event_type, (await ctx.payload(event)).decode()])
    return found


def test_each_event_is_seen_once_and_in_order() -> None:
    with Bench(app_of(loop=loop)) as bench:
        job = bench.event("ticket.created", {"n": 9}, job="loop").run()
        for n in range(2):
            bench.deliver(f"e{n}", {"n": n}, subject="t1")
        job.run()
        bench.deliver("e2", {"n": 2}, subject="t1")
        assert job.run().result == [[f"e{n}", f'{{"n":{n}}}'] for n in range(3)]


async def impatient(ctx: Context) -> str:
    try:
        await ctx.wait_for_event(ANSWER, timeout=timedelta(minutes=5))
    except WaitTimeout as error:
        await ctx.sleep(until=datetime(2100, 1, 1, tzinfo=UTC), name="for ever")
        return str(error)
    return "answered"


def test_a_timeout_is_stored_like_a_result_and_a_wait_of_decades_is_refused() -> None:
    with Bench(app_of(impatient=impatient)) as bench:
        job = bench.event("ticket.created", {"n": 1}, job="impatient").run()
        bench.advance(301)
        assert job.run().status == "failed"
        assert job.error is not None
        assert job.error.startswith("WaitRefused: for ever: it would wait until 2100")


async def listens(ctx: Context) -> str:
    answer = await ctx.listen(ANSWER)
    await ctx.effect("mail", send, key="ask")
    await ctx.sleep(60)
    event_id: str = (await answer).event_id
    return event_id


def test_what_a_handler_listens_to_is_kept_for_it() -> None:
    with Bench(app_of(listens=listens)) as bench:
        job = bench.submit("listens")
        job.pause_in("mail", done=True)
        bench.deliver("ticket.answered", subject="t1")
        job.run()
        assert job.status == "waiting"
        bench.advance(61)
        assert job.run().result.startswith("evt_")


async def parent(ctx: Context) -> Any:
    try:
        return await ctx.wait_for_job(ctx.input["child"])
    except JobFailed as error:
        return str(error)


async def child(ctx: Context) -> Any:
    await ctx.sleep(60)
    if ctx.input["ok"]:
        return {"answer": 42}
    raise ValueError("no")


@pytest.mark.parametrize("ok", [True, False])
def test_a_job_waits_for_another(ok: bool) -> None:
    with Bench(app_of(parent=parent, child=child)) as bench:
        awaited = bench.submit("child", {"ok": ok})
        job = bench.submit("parent", {"child": awaited.id}).run()
        assert job.status == "waiting"
        bench.advance(61)
        awaited.run()
        found = job.run().result
        assert found == {"answer": 42} if ok else "ValueError: no" in found


async def both(ctx: Context) -> Any:
    events = [ctx.wait_for_event(ANSWER | {"subject": s}) for s in ("a", "b")]
    return [e.subject for e in await ctx.all(*events)]


async def gathered(ctx: Context) -> Any:
    async def one(name: str) -> str:
        async with ctx.branch(name):
            event = await ctx.wait_for_event(ANSWER | {"subject": name})
            return str(await ctx.step("note", str.upper, event.subject))

    return list(await asyncio.gather(one("a"), one("b")))


@pytest.mark.parametrize(("handler", "expected"), [(both, ["a", "b"]), (gathered, ["A", "B"])])
def test_several_waits_at_once(handler: Any, expected: list[str]) -> None:
    with Bench(app_of(job=handler)) as bench:
        job = bench.submit("job").run()
        bench.deliver("ticket.answered", subject="b", key="b")
        assert job.run().status == "waiting"
        bench.deliver("ticket.answered", subject="a")
        assert job.run().result == expected


async def beside_a_step(ctx: Context) -> Any:
    async def slow() -> int:
        await asyncio.sleep(30)
        return 1

    event, done = await asyncio.gather(ctx.wait_for_event(ANSWER), ctx.step("slow", slow))
    return [event.subject, done]


def test_a_run_parks_only_once_nothing_else_is_under_way() -> None:
    with Bench(app_of(job=beside_a_step)) as bench:
        job = bench.submit("job").run()
        assert (job.status, job.steps) == ("waiting", {"slow": 1})
        bench.deliver("ticket.answered", subject="t1")
        assert job.run().result == ["t1", 1]


async def renamed(ctx: Context) -> Any:
    subject = "t1" if ctx.job_id else ""
    await ctx.wait_for_event({"subject": subject if VERSION["now"] == 1 else "t2"}, name="answer")


VERSION = {"now": 1}


def test_a_wait_for_something_else_under_the_same_name_fails_closed() -> None:
    with Bench(app_of(job=renamed)) as bench:
        VERSION["now"] = 1
        job = bench.submit("job").run()
        VERSION["now"] = 2
        bench.deliver("any", subject="t1")
        assert job.run().status == "failed"
        assert job.error is not None
        assert job.error.startswith(WaitRefused.__name__)


def test_a_match_without_an_equality_is_refused() -> None:
    async def vague(ctx: Context) -> None:
        await ctx.wait_for_event({"event_type": "ticket.*"})

    with Bench(app_of(job=vague)) as bench:
        assert "give a subject or an attribute" in (bench.submit("job").run().error or "")


@pytest.mark.parametrize("more", [{}, {"attributes": {"k": "v"}}])
def test_a_subject_is_no_glob(more: dict[str, Any]) -> None:
    async def starred(ctx: Context) -> Any:
        return (await ctx.wait_for_event({"subject": "*"} | more)).subject

    with Bench(app_of(job=starred)) as bench:
        job = bench.submit("job").run()
        bench.deliver("any", key="1", subject="t1", attributes={"k": "v"})
        assert job.run().status == "waiting"
        bench.deliver("any", key="2", subject="*", attributes={"k": "v"})
        assert job.run().result == "*"


def test_a_cancelled_job_waits_no_more() -> None:
    with Bench(app_of(follow_up=follow_up)) as bench:
        job = bench.event("ticket.created", {"n": 1}, job="follow_up").run()
        job.cancel("solved")
        bench.deliver("ticket.answered", subject="t1")
        assert (job.status, job.waits) == ("cancelled", [])
