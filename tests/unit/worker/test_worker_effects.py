"""G2 from the worker's side: ask, call, record, and never call without having asked."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from support.worker_bench import Answer, Bench, Clock, bench, granted

from streams import App, Context, PermanentError, RetryAfter, TransientError
from streams.errors import LeaseLost
from streams.serde.records import Checkpoint, Claim, Ended, Outcome
from streams.topology.model import LeasePolicy
from streams.worker.handler import effects
from streams.worker.handler.proof_not_done import not_done


class Tool:
    """Counts its calls, then does as it is told."""

    def __init__(self, result: Any = None, error: BaseException | None = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self.result, self.error = result, error

    async def __call__(self, **kwargs: Any) -> Any:
        self.calls.append(kwargs)
        if self.error:
            raise self.error
        return self.result


def app_calling(tool: Any, key: str = "reply", **options: Any) -> App:
    app = App("test")
    app.tool("email:send", key_lifetime=60)

    @app.job("job", **options)
    async def handler(ctx: Context) -> Any:
        return await ctx.effect("email:send", tool, key=key, to="x")

    return app


async def outcome_of(app: App, answer: Answer = granted) -> tuple[Ended, Bench]:
    async with bench(app, answer=answer) as at:
        return await at.ended(at.give()), at


async def test_a_granted_effect_is_called_under_its_key_and_recorded_before_it_returns() -> None:
    tool = Tool({"id": 7})
    ended, at = await outcome_of(app_calling(tool))
    assert tool.calls == [{"to": "x", "idempotency_key": "idk of email:send/reply"}]
    assert ended.result == '{"id":7}'
    kinds = [type(c.body).__name__ for _, c in at.commands() if c.job_id]
    assert kinds == ["Claim", "Outcome", "Ended"]
    (claim,), (outcome,) = at.bodies(Claim), at.bodies(Outcome)
    assert (claim.action, claim.key_lifetime_ms) == ("email:send/reply", 60_000)
    assert (claim.reply_partition, len(claim.digest)) == (3, 32)
    assert (outcome.claim_id, outcome.status, outcome.result) == (
        claim.claim_id, "done", '{"id":7}',
    )  # fmt: skip


async def test_an_effect_returns_only_once_its_outcome_is_acknowledged() -> None:
    app, recorded = App("test"), []

    async def tool(**_: Any) -> None:
        at.transport.failures = 1

    @app.job("job")
    async def handler(ctx: Context) -> None:
        await ctx.effect("t", tool, key="k")
        recorded.extend(at.bodies(Outcome))

    async with bench(app) as at:
        await at.ended(at.give())
    assert [o.status for o in recorded] == ["done"]


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
        {"a": 1, "b": {"x": 1, "y": 2}}, {"b": {"y": 2, "x": 1}, "a": 1}, {"a": 2},
    ]  # fmt: skip

    @app.job("job")
    async def handler(ctx: Context) -> None:
        for number, kwargs in enumerate(calls):
            await ctx.effect("t", Tool(), key=str(number), **kwargs)

    _, at = await outcome_of(app)
    one, two, three = (claim.digest for claim in at.bodies(Claim))
    assert one == two != three


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


async def test_a_lost_claim_raises_lease_lost_and_nothing_is_said() -> None:
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
        assert not at.bodies(Ended) + at.bodies(Outcome) + at.bodies(Checkpoint)


async def test_a_claim_is_repeated_with_its_id_until_it_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(effects, "RESEND_SECONDS", 0.02)
    asked: list[Claim] = []

    def third_time(claim: Claim) -> dict[str, Any] | None:
        asked.append(claim)
        return granted(claim) if len(asked) == 3 else None

    tool = Tool()
    ended, _ = await outcome_of(app_calling(tool), third_time)
    assert ended.status == "succeeded"
    assert (len(asked), len({c.claim_id for c in asked}), len(tool.calls)) == (3, 1, 1)


class WrappedError(Exception):
    """What a client library makes of an error."""


def wrapped(cause: BaseException | None, context: BaseException | None = None) -> WrappedError:
    error = WrappedError("call failed")
    error.__cause__, error.__context__ = cause, context
    return error


REFUSED = ConnectionRefusedError(111, "refused")
NOT_DONE = [TransientError("503"), RetryAfter(3), PermanentError("bad address"), REFUSED]
UNKNOWN = [
    TimeoutError(), ValueError(), ConnectionResetError(), wrapped(None), wrapped(None, REFUSED),
    wrapped(TransientError("said of another call")), wrapped(REFUSED), SystemExit(1),
    ExceptionGroup("the other was cancelled", [REFUSED]),
    ExceptionGroup("the other was cancelled", [TransientError("503")]),
]  # fmt: skip


@pytest.mark.parametrize("error", NOT_DONE, ids=repr)
async def test_an_effect_known_not_to_have_happened_is_failed(error: Exception) -> None:
    assert not_done(error)
    ended, at = await outcome_of(app_calling(Tool(error=error)))
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
    async with bench(app_calling(Tool())) as at:

        async def outlasts(**_: Any) -> str:
            for held in at.worker.held_leases.running():
                held.basis -= held.lease.term_seconds - held.margin
            return "sent"

        app = app_calling(outlasts)
        at.worker._app = app
        outcome = await at.outcome(at.give())
    assert (outcome.status, outcome.result) == ("done", '"sent"')


async def test_what_became_of_an_effect_is_told_after_the_term_as_well() -> None:
    """The broker was away for longer: only this process can spare a person the question."""

    async def outlasts(**_: Any) -> str:
        for held in at.worker.held_leases.running():
            held.basis -= 2 * held.lease.term_seconds
        at.transport.failures = 1
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


async def test_a_command_that_fails_is_repeated_under_the_same_id() -> None:
    tool, ids = Tool(), []
    async with bench(app_calling(tool)) as at:
        at.transport.failures = 1
        ended = await at.ended(at.give())
        ids = [c.command_id for _, c in at.commands()]
    assert ended.status == "succeeded"
    assert (len(ids), len(tool.calls)) == (len(set(ids)), 1)


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


def yields(to: str, *, idempotency_key: str) -> Iterator[None]:
    yield


async def yields_too(to: str, *, idempotency_key: str) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("tool", [yields, yields_too, functools.partial(yields, to="y")])
async def test_a_generator_is_no_effect_since_calling_it_does_nothing(tool: Any) -> None:
    """It was taken for done, and no later run or replay would have begun it."""
    ended, at = await outcome_of(app_calling(tool))
    assert (ended.status, at.bodies(Claim)) == ("failed", [])
    assert "is a generator" in (ended.error or "")


async def forgetful(to: str) -> None:
    raise AssertionError("never called")


async def strict(to: str, subject: str, *, idempotency_key: str) -> None:
    raise AssertionError("never called")


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (forgetful, "forgetful(to: 'str') -> 'None' cannot be called: got an unexpected keyword"),
        (forgetful, "argument 'idempotency_key'"),
        (strict, "missing a required argument: 'subject'"),
        ("no function", "'no function' is no function"),
    ],
)
async def test_a_function_that_cannot_be_called_is_named_and_nothing_is_claimed(
    function: Any, named: str
) -> None:
    ended, at = await outcome_of(app_calling(function))
    assert (ended.status, at.bodies(Claim)) == ("failed", [])
    assert named in (ended.error or "")


async def test_a_wrapper_is_asked_for_its_own_parameters() -> None:
    async def inner(client: str, to: str) -> str:
        return f"{client} to {to}"

    @functools.wraps(inner)
    async def outer(*, idempotency_key: str, **kwargs: Any) -> str:
        return await inner("client", **kwargs)

    ended, _ = await outcome_of(app_calling(outer))
    assert ended.result == '"client to x"'


async def test_a_builtin_without_a_signature_is_called() -> None:
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> Any:
        return await ctx.effect("t", dict, key="k", a=1)

    ended, _ = await outcome_of(app)
    assert ended.result == '{"a":1,"idempotency_key":"idk of t/k"}'


async def test_an_effect_that_is_refused_after_another_failed_is_known_not_to_be_done() -> None:
    """The handler falls back to a second service: what it handles is of the first effect."""
    app = App("test")

    async def first(idempotency_key: str) -> None:
        raise TimeoutError("sent, and no answer")

    async def second(idempotency_key: str) -> None:
        raise REFUSED

    @app.job("job")
    async def handler(ctx: Context) -> None:
        try:
            await ctx.effect("primary", first, key="k")
        except TimeoutError:
            await ctx.effect("fallback", second, key="k")

    _, at = await outcome_of(app)
    assert [o.status for o in at.bodies(Outcome)] == ["unknown", "failed"]
