"""An application's own middleware: its place, its errors, and what it cannot do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.worker_bench import Clock, bench

import streams.middleware
from streams import App, Context, PermanentError, RetryAfter
from streams.errors import ConfigError
from streams.middleware import (
    EffectCall,
    GoOn,
    GoOnWithEffect,
    Isolation,
    Middleware,
    Run,
    RunLog,
    RunResult,
    TimeLimit,
    Tracing,
    WorkerParts,
)
from streams.serde.records import Claim, Ended
from streams.worker.middleware.stack import DEFAULT

ORDER = list(DEFAULT)
INSIDE = ORDER.index(RunLog) + 1


class Noting(Middleware):
    """Notes what passes it, by its own name."""

    def __init__(self, name: str, noted: list[str]) -> None:
        self.name = name
        self.noted = noted

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        self.noted.append(f"{self.name} begins")
        result = await go_on()
        self.noted.append(f"{self.name} {result.status}")
        return result


class Within(Noting):
    """Another class, since each stands in the stack once."""


class Raising(Middleware):
    """Raises an error before it goes on, or after that."""

    def __init__(self, error: BaseException, *, after: bool = False) -> None:
        self.error = error
        self.after = after

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        if self.after:
            await go_on()
        raise self.error


def app_of(function: Any, *members: Middleware) -> App:
    app = App("test")
    app.job("job")(function)
    for member in members:
        app.middleware.add(member)
    return app


async def ended_of(app: App, **lease: Any) -> Ended:
    async with bench(app) as at:
        ended = await at.ended(at.give(**lease))
        await at.idle()
        return ended


async def nothing(ctx: Context) -> None: ...


async def waits_for_ever(ctx: Context) -> None:
    await asyncio.Event().wait()


def test_an_application_begins_with_the_default_stack_and_shows_it() -> None:
    assert list(App("test").middleware) == ORDER
    assert repr(App("test").middleware).startswith("Stack(Tracing, Isolation, ")


def test_each_default_member_can_be_imported_to_replace_it() -> None:
    assert {member.__name__ for member in DEFAULT} <= set(streams.middleware.__all__)


def test_a_member_is_added_where_it_is_wanted() -> None:
    stack = App("test").middleware
    inner, outer, third = Noting("inner", []), Within("outer", []), Raising(ValueError())
    stack.add(inner)
    stack.add(outer, before=Tracing)
    stack.add(third, after=RunLog)
    assert list(stack) == [outer, *ORDER[:INSIDE], third, *ORDER[INSIDE:], inner]
    stack.replace(Raising, Middleware)
    stack.remove(Tracing)
    assert list(stack) == [outer, *ORDER[1:INSIDE], Middleware, *ORDER[INSIDE:], inner]


def test_applications_do_not_share_a_stack() -> None:
    App("one").middleware.remove(Tracing)
    assert list(App("other").middleware) == ORDER


class NotAsync(Middleware):
    def run(self, run: Run, go_on: GoOn) -> Any:
        return go_on()


class WithMore(Middleware):
    def __init__(self, worker: WorkerParts, url: str) -> None: ...


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda stack: stack.add(object()), "make it a subclass of streams.middleware.Middleware"),
        (lambda stack: stack.add(nothing), "make it a subclass"),
        (lambda stack: stack.add(NotAsync()), "run is not an `async def`"),
        (lambda stack: stack.add(WithMore), "'url'.*: give an instance"),
        (lambda stack: stack.add(Tracing), "Tracing is there already: use `replace`"),
        (lambda stack: stack.remove(Noting), "no middleware Noting is there: there are Tracing, "),
        (lambda stack: stack.replace(Noting, Middleware), "no middleware Noting"),
        (lambda stack: stack.add(Middleware(), before=Tracing, after=RunLog), "not both"),
    ],
)
def test_a_wrong_declaration_is_refused_where_it_stands(change: Any, told: str) -> None:
    stack = App("test").middleware
    with pytest.raises(ConfigError, match=told):
        change(stack)
    assert list(stack) == ORDER


async def test_a_run_passes_the_members_and_its_result_passes_them_back() -> None:
    noted: list[str] = []

    async def handler(ctx: Context) -> None:
        noted.append("handler")

    app = app_of(handler, Noting("outer", noted), Within("inner", noted))
    await ended_of(app)
    assert noted == [
        "outer begins",
        "inner begins",
        "handler",
        "inner succeeded",
        "outer succeeded",
    ]


async def test_a_member_before_the_time_limit_sees_a_stopped_run_and_one_behind_it_does_not() -> (
    None
):
    noted: list[str] = []
    app = app_of(waits_for_ever, Noting("inner", noted))
    app.middleware.add(Within("outer", noted), before=TimeLimit)
    await ended_of(app, timeout_seconds=0.02)
    assert noted == ["outer begins", "inner begins", "outer retry"]


@pytest.mark.parametrize("before", [None, TimeLimit, Tracing])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (ValueError("odd"), "retry", "ValueError: odd (in middleware Raising)"),
        (PermanentError("never"), "failed", "PermanentError: never (in middleware Raising)"),
        (RetryAfter(7, "later"), "retry", "RetryAfter: later (in middleware Raising)"),
        (SystemExit(3), "retry", "SystemExit: 3 (in middleware Raising)"),
        (
            ExceptionGroup("g", [ValueError("odd"), PermanentError("never")]),
            "failed",
            "PermanentError: never (in middleware Raising)",
        ),
    ],
)
async def test_an_error_of_a_member_ends_the_run_like_one_of_the_handler(
    error: BaseException, status: str, text: str, after: bool, before: type[Middleware] | None
) -> None:
    app = app_of(nothing)
    app.middleware.add(Raising(error, after=after), before=before)
    ended = await ended_of(app)
    assert (ended.status, ended.error) == (status, text)
    assert ended.retry_after_seconds == (7 if isinstance(error, RetryAfter) else None)


async def test_the_innermost_error_counts() -> None:
    async def handler(ctx: Context) -> None:
        raise PermanentError("never")

    app = app_of(handler, Raising(ValueError("odd"), after=True))
    with capture_logs() as lines:
        ended = await ended_of(app)
    assert (ended.status, ended.error) == ("failed", "PermanentError: never")
    assert any("odd" in str(line.get("exception")) for line in lines), "the other one is logged"


async def test_a_member_that_cancels_itself_costs_no_slot() -> None:
    app = app_of(nothing)
    app.middleware.add(Raising(asyncio.CancelledError()), before=Tracing)
    async with bench(app, slots=1) as at:
        ended = await at.ended(at.give())
        assert (ended.status, at.worker.held_leases.free()) == ("retry", 1)


class Twice(Middleware):
    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        await go_on()
        return await go_on()

    async def effect(self, effect: EffectCall, go_on: GoOnWithEffect) -> Any:
        await go_on()
        return await go_on()


class Forgetful(Middleware):
    async def run(self, run: Run, go_on: GoOn) -> Any:
        await go_on()


async def test_a_handler_is_never_run_twice_by_one_run() -> None:
    ran: list[int] = []

    async def handler(ctx: Context) -> None:
        ran.append(1)

    ended = await ended_of(app_of(handler, Twice()))
    assert (ended.status, ran) == ("failed", [1])
    assert "awaits go_on() twice" in (ended.error or "")


async def test_a_member_that_forgets_to_return_is_told_so() -> None:
    ended = await ended_of(app_of(nothing, Forgetful()))
    assert ended.status == "failed"
    assert ended.error == (
        "PermanentError: run() returned None: return what `await go_on()` gives "
        "(in middleware Forgetful)"
    )


class Made(Middleware):
    """Makes its own result of each run."""

    def __init__(self, made: RunResult) -> None:
        self.made = made

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        return self.made


NOT_JSON = (
    "run() returned a result that is no text of JSON: write the value with json.dumps() "
    "(in middleware Made)"
)


@pytest.mark.parametrize("before", [None, Tracing])
@pytest.mark.parametrize(
    ("made", "status", "told"),
    [
        (RunResult("succeeded", result='"sent"'), "succeeded", None),
        (RunResult("succeeded"), "succeeded", None),
        (RunResult("succeeded", result="sent"), "failed", NOT_JSON),
        (RunResult("succeeded", result=""), "failed", NOT_JSON),
        (RunResult("succeeded", result={"n": 1}), "failed", NOT_JSON),  # type: ignore[arg-type]
        (
            RunResult("done"),  # type: ignore[arg-type]
            "failed",
            "run() returned the status 'done', which no run has (in middleware Made)",
        ),
    ],
)
async def test_a_result_that_cannot_be_reported_fails_the_job_and_says_why(
    made: RunResult, status: str, told: str | None, before: type[Middleware] | None
) -> None:
    app = app_of(nothing)
    app.middleware.add(Made(made), before=before)
    ended = await ended_of(app)
    assert (ended.status, ended.error) == (status, told and f"PermanentError: {told}")


class Hides(Middleware):
    """Calls every end a success."""

    async def run(self, run: Run, go_on: GoOn) -> RunResult:
        await go_on()
        return RunResult("succeeded", result="null")


async def test_a_lost_run_reports_nothing_whatever_a_member_makes_of_it() -> None:
    clock = Clock()
    app = app_of(waits_for_ever)
    app.middleware.add(Hides(), before=Tracing)
    async with bench(app, clock=clock) as at:
        at.give()
        await clock.looked_at()
        clock.now += 100
        await at.idle()
        assert not at.bodies(Ended)


async def test_without_a_time_limit_the_lease_bounds_a_run() -> None:
    clock, stopped = Clock(), asyncio.Event()

    async def handler(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    app = app_of(handler)
    app.middleware.remove(TimeLimit)
    async with bench(app, clock=clock) as at:
        at.give(timeout_seconds=1)
        await clock.looked_at()
        clock.now += at.leases.term_seconds
        await asyncio.wait_for(stopped.wait(), 5)
        await at.idle()
        assert not at.bodies(Ended)


async def test_without_a_time_limit_a_run_is_still_cancelled() -> None:
    begun = asyncio.Event()

    async def handler(ctx: Context) -> None:
        begun.set()
        await asyncio.Event().wait()

    app = app_of(handler)
    app.middleware.remove(TimeLimit)
    async with bench(app) as at:
        lease = at.give()
        await begun.wait()
        at.reply(lease, "cancel", message="no longer needed")
        assert (await at.ended(lease)).status == "cancelled"


async def test_without_isolation_a_suspect_runs_at_once_and_within_its_time() -> None:
    app = app_of(waits_for_ever)
    app.middleware.remove(Isolation)
    ended = await ended_of(app, alone=True, timeout_seconds=0.02)
    assert (ended.status, ended.error) == ("retry", "TimeoutError: ran past its 0.02 s")


class Doubling(Middleware):
    """Doubles what effects return, and notes the arguments of those that it saw."""

    def __init__(self) -> None:
        self.seen: list[EffectCall] = []

    async def effect(self, effect: EffectCall, go_on: GoOnWithEffect) -> Any:
        self.seen.append(effect)
        return await go_on() * 2


async def pay(amount: int, idempotency_key: str) -> int:
    return amount


async def paying(ctx: Context) -> int:
    result: int = await ctx.effect("payment:pay", pay, key="k", amount=21)
    return result


async def test_a_member_around_effects_sees_the_arguments_and_changes_the_result() -> None:
    doubling = Doubling()
    ended = await ended_of(app_of(paying, doubling))
    assert ended.result == "42"
    (seen,) = doubling.seen
    assert (seen.action, seen.arguments, seen.tenant_id) == (
        "payment:pay/k",
        {"amount": 21},
        "acme",
    )


class Refusing(Middleware):
    """Lets no effect begin."""

    async def effect(self, effect: EffectCall, go_on: GoOnWithEffect) -> Any:
        raise PermanentError(f"not now: {effect.tool}")


async def test_a_member_that_raises_in_an_effect_is_named_and_nothing_is_claimed() -> None:
    async with bench(app_of(paying, Refusing())) as at:
        ended = await at.ended(at.give())
        assert at.bodies(Claim) == []
    assert ended.error == "PermanentError: not now: payment:pay (in middleware Refusing)"


async def test_the_error_of_a_tool_is_no_members() -> None:
    async def handler(ctx: Context) -> None:
        await ctx.effect("payment:pay", fails, key="k")

    async def fails(idempotency_key: str) -> None:
        raise TimeoutError("no answer")

    ended = await ended_of(app_of(handler, Doubling(), Within("inner", [])))
    assert ended.error == "TimeoutError: no answer"


async def test_an_effect_is_claimed_once() -> None:
    async with bench(app_of(paying, Twice())) as at:
        ended = await at.ended(at.give())
        assert len(at.bodies(Claim)) == 1
    assert ended.status == "failed"


class Closing(Middleware):
    """Notes that it is closed, and fails then."""

    def __init__(self, closed: list[str]) -> None:
        self.closed = closed

    def close(self) -> None:
        self.closed.append("closed")
        raise ValueError("odd")


class ClosingToo(Closing):
    """Another class."""


async def test_each_member_is_closed_with_the_worker() -> None:
    closed: list[str] = []
    app = app_of(nothing, Closing(closed), ClosingToo(closed))
    async with bench(app) as at:
        with capture_logs() as lines:
            at.worker.executor.close()
    assert closed == ["closed", "closed"]
    assert [line["middleware"] for line in lines] == ["Closing", "ClosingToo"]


class OfItsWorker(Middleware):
    """Notes the pools of the workers that make it."""

    pools: list[str] = []  # noqa: RUF012

    def __init__(self, worker: WorkerParts) -> None:
        self.pools.append(worker.pool)


async def test_a_class_is_made_by_each_worker_with_its_own_parts() -> None:
    app = app_of(nothing)
    app.middleware.add(OfItsWorker)
    for _ in range(2):
        await ended_of(app)
    assert OfItsWorker.pools == ["default", "default"]


async def test_a_hundred_runs_at_once_pass_one_instance() -> None:
    noted: list[str] = []
    app = app_of(nothing, Noting("m", noted))
    async with bench(app, slots=100) as at:
        leases = [at.give(home_partition=n % 4) for n in range(100)]
        for lease in leases:
            assert (await at.ended(lease)).status == "succeeded"
    assert sorted(noted) == ["m begins"] * 100 + ["m succeeded"] * 100
