"""What becomes of an effect that fails, is cancelled, or outlives its lease."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.effect_calls import Tool, app_calling, outcome_of
from support.worker_bench import Clock, bench, granted

from streams import App, Context, PermanentError, RetryAfter, TransientError
from streams.serde.records import Claim, Ended, Outcome
from streams.topology.model import LeasePolicy
from streams.vault import opening
from streams.worker.handler.proof_not_done import not_done


class WrappedError(Exception):
    """What a client library makes of an error."""


def wrapped(cause: BaseException | None, context: BaseException | None = None) -> WrappedError:
    error = WrappedError("call failed")
    error.__cause__, error.__context__ = cause, context
    return error


REFUSED = ConnectionRefusedError(111, "refused")
NOT_DONE = [TransientError("503"), RetryAfter(3), PermanentError("bad address"), REFUSED]
UNKNOWN = [
    TimeoutError(),
    ValueError(),
    ConnectionResetError(),
    wrapped(None),
    wrapped(None, REFUSED),
    wrapped(TransientError("said of another call")),
    wrapped(REFUSED),
    SystemExit(1),
    ExceptionGroup("the other was cancelled", [REFUSED]),
    ExceptionGroup("the other was cancelled", [TransientError("503")]),
]


@pytest.mark.parametrize("error", NOT_DONE, ids=repr)
async def test_an_effect_known_not_to_have_happened_is_failed(error: Exception) -> None:
    assert not_done(error)
    ended, at = await outcome_of(app_calling(Tool(error=error)))
    assert [o.status for o in at.bodies(Outcome)] == ["failed"]
    assert ended.status == ("failed" if isinstance(error, PermanentError) else "retry")


@pytest.mark.parametrize("error", NOT_DONE, ids=repr)
async def test_a_tool_in_a_thread_says_as_much_as_one_in_the_loop(error: Exception) -> None:
    def in_a_thread(to: str, idempotency_key: str) -> None:
        error.__traceback__ = None  # that of another test
        raise error

    ended, at = await outcome_of(app_calling(in_a_thread))
    assert [o.status for o in at.bodies(Outcome)] == ["failed"]
    assert ended.status == ("failed" if isinstance(error, PermanentError) else "retry")


@pytest.mark.parametrize("error", UNKNOWN, ids=repr)
async def test_after_any_other_error_nobody_knows(error: BaseException) -> None:
    assert not not_done(error)
    ended, at = await outcome_of(app_calling(Tool(error=error)))
    assert [o.status for o in at.bodies(Outcome)] == ["unknown"]
    assert ended.status == "retry"


Use = Callable[[Context], Awaitable[Any]]
USES: list[Use] = [
    lambda ctx: ctx.progress(object()),
    lambda ctx: ctx.payload(),
    lambda ctx: ctx.step("sent", object),
    lambda ctx: ctx.effect("mail", print, key=""),
]


@pytest.mark.parametrize("use", USES)
async def test_what_the_context_refuses_inside_a_tool_is_no_word_of_the_tool(use: Use) -> None:
    """The call may have been sent before: said to be not done, it would be made again."""
    app, sent = App("test"), list[str]()

    @app.job("job")
    async def handler(ctx: Context) -> None:
        async def send(idempotency_key: str) -> None:
            sent.append(idempotency_key)
            await use(ctx)

        await ctx.effect("refund", send, key="k")

    async with bench(app) as at:
        lease = at.give()
        assert (await at.ended(lease)).status == "failed"
        assert [o.status for o in at.bodies(Outcome)] == ["unknown"]
    assert len(sent) == 1


class DeclaredError(Exception):
    """Says that nothing was done, as the application declares it."""


async def busy(idempotency_key: str = "") -> None:
    raise TransientError("said of another call")


async def away(idempotency_key: str = "") -> None:
    raise DeclaredError


async def refused(idempotency_key: str = "") -> None:
    raise ConnectionRefusedError(111, "refused")


@pytest.mark.parametrize("error", [busy, away, refused])
@pytest.mark.parametrize("inner", ["step", "effect", "payload"])
async def test_what_passes_through_the_context_inside_a_tool_is_no_word_of_the_tool(
    error: Callable[[], Awaitable[None]], inner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "open_payload", lambda *_: error())
    uses: dict[str, Use] = {
        "step": lambda ctx: ctx.step("note", error),
        "effect": lambda ctx: ctx.effect("mail", error, key="k"),
        "payload": lambda ctx: ctx.payload(),
    }
    app = App("test")
    app.tool("refund", nothing_done=(DeclaredError,))

    @app.job("job")
    async def handler(ctx: Context) -> None:
        async def send(idempotency_key: str) -> None:
            await uses[inner](ctx)

        await ctx.effect("refund", send, key="k")

    _, at = await outcome_of(app)
    (outer,) = [o for o in at.bodies(Outcome) if o.action == "refund/k"]
    assert outer.status == "unknown"


async def test_what_a_call_in_a_thread_returns_after_its_run_is_reported() -> None:
    """It spares a person the question whether the effect happened."""
    begun, ends = threading.Event(), threading.Event()

    def pay(**_: Any) -> dict[str, int]:
        begun.set()
        assert ends.wait(10)
        return {"paid": 1}

    async with bench(app_calling(pay)) as at:
        lease = at.give()
        assert await asyncio.to_thread(begun.wait, 10)
        at.reply(lease, "cancel")
        await at.ended(lease)
        ends.set()
        await at.until(lambda: at.bodies(Outcome)[1:], "what the call returned")
    told = [(outcome.status, outcome.result) for outcome in at.bodies(Outcome)]
    assert told == [("unknown", None), ("done", '{"paid":1}')]


async def test_a_call_for_which_there_is_no_thread_was_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("call-"):
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    ended, at = await outcome_of(app_calling(lambda idempotency_key, to: None))
    assert [outcome.status for outcome in at.bodies(Outcome)] == ["failed"]
    assert (ended.status, "can't start new thread" in (ended.error or "")) == ("retry", True)


async def test_an_effect_cancelled_in_its_middle_is_unknown() -> None:
    begun = asyncio.Event()

    async def hang(**_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with bench(app_calling(hang)) as at:
        lease = at.give()
        await begun.wait()
        at.reply(lease, "cancel")
        ended = await at.ended(lease)
    assert ended.status == "cancelled"
    assert [o.status for o in at.bodies(Outcome)] == ["unknown"]


@pytest.mark.parametrize(("tool", "status"), [("refund", "failed"), ("email:send", "unknown")])
async def test_an_effect_cancelled_while_it_is_claimed_is_withdrawn(tool: str, status: str) -> None:
    """Of a tool that honours keys the claim may be for a repetition: the first call counts."""
    app, called = App("test"), Tool()
    app.tool("email:send", key_lifetime=60)

    @app.job("job")
    async def handler(ctx: Context) -> None:
        await ctx.effect(tool, called, key="k")

    async with bench(app, answer=lambda _: None) as at:
        lease = at.give()
        (claim,) = await at.until(lambda: at.bodies(Claim), "a claim")
        at.reply(lease, "cancel")
        assert (await at.ended(lease)).status == "cancelled"
        (outcome,) = at.bodies(Outcome)
    assert (outcome.status, outcome.claim_id, called.calls) == (status, claim.claim_id, [])


@pytest.mark.parametrize("answer", ["cancel", "lost"])
@pytest.mark.parametrize(("tool", "status"), [("refund", "failed"), ("email:send", "unknown")])
async def test_a_claim_of_a_run_that_is_over_is_withdrawn(
    answer: str, tool: str, status: str
) -> None:
    """An earlier copy of it may have been granted, and that answer is lost."""
    app, called = App("test"), Tool()
    app.tool("email:send", key_lifetime=60)

    @app.job("job")
    async def handler(ctx: Context) -> None:
        await ctx.effect(tool, called, key="k")

    async with bench(app, answer=lambda _: {"kind": answer}) as at:
        at.give()
        (outcome,) = await at.until(lambda: at.bodies(Outcome), "an outcome")
        (claim,) = at.bodies(Claim)
    assert (outcome.status, outcome.claim_id, called.calls) == (status, claim.claim_id, [])


async def test_a_repetition_that_was_not_done_leaves_the_first_call_unknown() -> None:
    tool = Tool(error=TransientError("503"))
    ended, at = await outcome_of(
        app_calling(tool), lambda claim: {**granted(claim), "repeat": True}
    )
    assert (ended.status, len(tool.calls)) == ("retry", 1)
    assert [o.status for o in at.bodies(Outcome)] == ["unknown"]


async def test_a_grant_that_comes_after_the_lease_begins_nothing() -> None:
    tool, late, clock = Tool(), asyncio.Event(), Clock()
    # The clock ends the lease; the brief term only has the run's watch look at it soon.
    policy = LeasePolicy(term_seconds=0.03, margin_seconds=0.01)
    app = app_calling(tool)
    async with bench(app, leases=policy, answer=lambda _: None, slots=1, clock=clock) as at:
        lease = at.give()
        (claim,) = await at.until(lambda: at.bodies(Claim), "a claim")
        clock.now += policy.term_seconds
        await at.idle()
        at.reply(lease, "granted", claim.claim_id, idempotency_key="k")
        asyncio.get_running_loop().call_soon(late.set)
        await late.wait()
        assert tool.calls == []
        assert not at.bodies(Ended)


async def test_a_grant_in_a_blocked_moment_is_given_back_once_the_lease_is_over() -> None:
    """The reply is there, the lease is not: the clock decides, not the order of arrival."""
    tool = Tool()
    async with bench(app_calling(tool)) as at:

        def grant_and_pass_the_term(claim: Claim) -> dict[str, Any]:
            for held in at.worker.held_leases.running():
                held.basis -= held.lease.term_seconds - held.margin
            return granted(claim)

        at.answer = grant_and_pass_the_term
        lease = at.give()
        outcome = await at.outcome(lease)
        assert (outcome.status, tool.calls) == ("failed", [])
        assert not at.bodies(Ended)


async def test_the_end_of_an_effect_is_recorded_in_the_margin_too() -> None:
    async def outlasts(**_: Any) -> str:
        for held in at.worker.held_leases.running():
            held.basis -= held.lease.term_seconds - held.margin
        return "sent"

    async with bench(app_calling(outlasts)) as at:
        outcome = await at.outcome(at.give())
    assert (outcome.status, outcome.result) == ("done", '"sent"')


async def test_what_became_of_an_effect_is_told_after_the_term_as_well() -> None:
    """The broker was away for longer: only this process can spare a person the question."""

    async def outlasts(**_: Any) -> str:
        for held in at.worker.held_leases.running():
            held.basis -= 2 * held.lease.term_seconds
        at.late = 1
        return "sent"

    async with bench(app_calling(outlasts)) as at:
        outcome = await at.outcome(at.give())
    assert (outcome.status, outcome.result) == ("done", '"sent"')


async def test_a_grant_that_came_after_the_term_is_given_back_as_well() -> None:
    tool = Tool()
    async with bench(app_calling(tool)) as at:

        def grant_and_pass_the_term(claim: Claim) -> dict[str, Any]:
            for held in at.worker.held_leases.running():
                held.basis -= 2 * held.lease.term_seconds
            return granted(claim)

        at.answer = grant_and_pass_the_term
        outcome = await at.outcome(at.give())
    assert (outcome.status, tool.calls) == ("failed", [])


async def test_that_nobody_knows_is_not_said_after_the_term() -> None:
    """The dispatcher assumes as much, and a person may have been asked already."""

    async def outlasts(**_: Any) -> str:
        for held in at.worker.held_leases.running():
            held.basis -= 2 * held.lease.term_seconds
        raise ValueError("?")

    async with bench(app_calling(outlasts)) as at:
        at.give()
        await at.until(lambda: at.bodies(Claim), "a claim")
        await at.idle()
    assert at.bodies(Outcome) == []


async def test_an_error_that_a_tool_declares_says_that_nothing_was_done() -> None:
    class NotSentError(Exception):
        pass

    class MaybeSentError(NotSentError):
        pass

    for error, status in ((MaybeSentError(), "failed"), (ValueError(), "unknown")):
        app, tool = App("test"), Tool(error=error)
        app.tool("sms", nothing_done=(NotSentError,))

        @app.job("job")
        async def handler(ctx: Context, tool: Tool = tool) -> None:
            await ctx.effect("sms", tool, key="k")

        ended, at = await outcome_of(app)
        assert [o.status for o in at.bodies(Outcome)] == [status]
        assert ended.status == "retry"
        assert at.bodies(Claim)[0].key_lifetime_ms == 0


async def test_an_error_that_cannot_say_what_it_is_is_recorded_as_well() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise TypeError("no text")

    _, at = await outcome_of(app_calling(Tool(error=MuteError())))
    (outcome,) = at.bodies(Outcome)
    assert (outcome.status, (outcome.error or "").startswith("MuteError")) == ("unknown", True)
