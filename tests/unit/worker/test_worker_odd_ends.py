"""Runs that end in an unusual way: unreadable errors, exits, tasks left behind."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
import structlog
import uvloop
from support.worker_bench import bench

from streams import App, Context, PermanentError, RetryAfter, TransientError
from streams.errors import LeaseLost
from streams.serde.records import Claim, Ended
from streams.worker.run import run_to_its_end


def app_of(function: Any, **options: Any) -> App:
    app = App("test")
    app.job("job", **options)(function)
    return app


async def run_once(function: Any, **lease: Any) -> Ended:
    async with bench(app_of(function)) as at:
        return await at.ended(at.give(**lease))


async def test_an_error_that_is_no_utf_8_ends_the_run_all_the_same() -> None:
    """`json.loads` lets a vendor's lone surrogates through."""
    app = App("test")

    @app.job("job")
    async def job(ctx: Context) -> None:
        raise PermanentError("unknown customer caf\udce9")

    async with bench(app) as at:
        ended = await at.ended(at.give())
        assert (ended.status, ended.error) == (
            "failed",
            "PermanentError: unknown customer caf\\udce9",
        )


async def test_the_next_incarnation_of_a_job_is_another_run() -> None:
    app, ran = App("test"), []

    @app.job("job")
    async def job(ctx: Context) -> None:
        ran.append(ctx.run_id)

    async with bench(app) as at:
        await at.ended(at.give(job_id="job_same", epoch=1, run_id="run_1"))
        at.give(job_id="job_same", epoch=1, run_id="run_2", incarnation=2)
        await at.until(lambda: len(at.bodies(Ended)) == 2, "the second end")
    assert ran == ["run_1", "run_2"]


async def test_the_answer_to_a_claim_that_was_given_up_ends_no_run() -> None:
    app, go_on = App("test"), asyncio.Event()

    @app.job("job")
    async def job(ctx: Context) -> str:
        await go_on.wait()
        return "fine"

    async with bench(app) as at:
        lease = at.give()
        at.reply(lease, "lost", "clm_given_up", message="this claim has its outcome already")
        at.reply(lease, "lost", "clm_given_up")
        await asyncio.sleep(0)
        go_on.set()
        assert (await at.ended(lease)).status == "succeeded"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("odd"), True),
        (ExceptionGroup("g", [ValueError("odd"), PermanentError("never")]), True),
        (TransientError("busy"), False),
        (RetryAfter(7), False),
        (PermanentError("never"), False),
        (ExceptionGroup("g", [TransientError("busy"), PermanentError("never")]), False),
    ],
)
async def test_the_traceback_of_an_error_that_is_no_word_to_us_is_logged(
    error: Exception, told: bool
) -> None:
    async def handler(ctx: Context) -> None:
        raise error

    with structlog.testing.capture_logs() as lines:
        ended = await run_once(handler)
    raised = [line for line in lines if line["event"] == "handler raised"]
    assert [line["log_level"] for line in raised] == (["warning"] if told else [])
    for line in raised:
        assert "ValueError: odd" in line["exception"]
        assert f'File "{__file__}"' in line["exception"]
        assert "execution.py" not in line["exception"], "only the handler's own frames"
    complete = [line["exc_info"] for line in lines if line["log_level"] == "debug"]
    assert complete == ([error] if told else [])
    assert "Traceback" not in (ended.error or "")


def calls_itself() -> None:
    """Tries again by calling itself, as long as Python lets it."""
    try:
        raise ValueError("busy")
    except ValueError:
        calls_itself()


def chained() -> None:
    error = ValueError("the first")
    for n in range(5_000):
        following = ValueError(f"attempt {n}")
        following.__cause__ = error
        error = following
    raise error


def nested() -> None:
    error: Exception = ValueError("innermost")
    for _ in range(5_000):
        error = ExceptionGroup("g", [error])
    raise error


def misplaced() -> None:
    raise SyntaxError("of a template", ("page.html", 1, "first", "{{ x"))  # type: ignore[arg-type]


class Silent(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


def silent() -> None:
    raise Silent


def noted_at_length() -> None:
    error = ValueError("odd")
    error.add_note("in middleware " + "x" * 5_000_000)
    raise error


def noted_oddly() -> None:
    error = ValueError("odd")
    error.__notes__ = 7  # type: ignore[assignment]
    raise error


def surrogates() -> None:
    raise ValueError("customer caf\udce9")


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (silent, "Silent: (it cannot say what it is)"),
        (noted_at_length, f"ValueError: odd (in middleware {'x' * 186})"),
        (noted_oddly, "ValueError: odd"),
        (surrogates, "ValueError: customer caf\\udce9"),
    ],
)
async def test_an_error_that_says_odd_things_is_told_all_the_same(fails: Any, told: str) -> None:
    async def handler(ctx: Context) -> None:
        fails()

    with structlog.testing.capture_logs() as lines:
        ended = await run_once(handler)
    assert (ended.status, ended.error) == ("retry", told)
    (raised,) = [line for line in lines if line["event"] == "handler raised"]
    assert raised["exception"].encode()


@pytest.mark.parametrize("fails", [calls_itself, chained, nested, misplaced])
async def test_an_error_whose_traceback_is_odd_costs_no_slot(fails: Any) -> None:
    async def handler(ctx: Context) -> None:
        fails()

    async with bench(app_of(handler), slots=1) as at:
        for alone in (False, True):
            with structlog.testing.capture_logs():  # to write them would take long
                ended = await at.ended(at.give(alone=alone))
                await at.idle()
            assert ended.status == "retry"
            assert ended.traceback
            assert at.worker.held_leases.free() == 1


@pytest.mark.parametrize("error", [None, ValueError("of the handler")])
async def test_what_a_handler_leaves_behind_starts_nothing_once_the_run_is_over(
    error: Exception | None,
) -> None:
    """The next run may have begun: of one job one run is live."""
    over, started, left = asyncio.Event(), list[str](), list[asyncio.Task[None]]()

    async def behind(ctx: Context) -> None:
        await over.wait()
        for begin in (
            lambda: ctx.step("s", started.append, "step"),
            lambda: ctx.effect("mail", lambda idempotency_key: started.append("mail"), key="k"),
            lambda: ctx.progress(1),
        ):
            with pytest.raises(LeaseLost):
                await begin()

    async def handler(ctx: Context) -> None:
        left.append(asyncio.create_task(behind(ctx)))
        if error is not None:
            raise error

    async with bench(app_of(handler)) as at:
        await at.ended(at.give())
        over.set()
        await left[0]
        assert not at.bodies(Claim)
    assert started == []


async def test_an_effect_that_a_handler_left_behind_is_given_back() -> None:
    """It was granted when the run was over: the next run need not ask a person about it."""
    calls, left = list[str](), list[asyncio.Task[None]]()

    async def behind(ctx: Context) -> None:
        with pytest.raises(LeaseLost):
            await ctx.effect("mail", lambda idempotency_key: calls.append("mail"), key="k")

    async def handler(ctx: Context) -> None:
        left.append(asyncio.create_task(behind(ctx)))
        await at.until(lambda: at.bodies(Claim), "a claim")

    async with bench(app_of(handler), answer=lambda _: None) as at:
        lease = at.give()
        await at.ended(lease)
        (claim,) = at.bodies(Claim)
        at.reply(lease, "granted", claim.claim_id, idempotency_key="k")
        assert (await at.outcome(lease)).status == "failed"
        await left[0]
    assert calls == []


def test_a_system_exit_in_a_task_of_a_handler_ends_its_run_and_no_other() -> None:
    """As of a library that ends the process where it was called for the command line."""
    ends = list[Ended]()

    async def leaves() -> None:
        sys.exit(3)

    async def exits(ctx: Context) -> None:
        await asyncio.gather(leaves())

    async def lives(ctx: Context) -> str:
        return str(await ctx.step("s", lambda: "lived"))

    async def main() -> None:
        app = app_of(lives)
        app.job("exits")(exits)
        async with bench(app) as at:
            for lease in (at.give("exits"), at.give()):
                ends.append(await at.ended(lease))

    loop = uvloop.new_event_loop()
    try:
        run_to_its_end(loop, main())
    finally:
        loop.close()
    assert [(each.status, each.error, each.result) for each in ends] == [
        ("retry", "SystemExit: 3", None),
        ("succeeded", None, '"lived"'),
    ]


def test_a_handler_that_stops_the_event_loop_does_not_end_the_worker() -> None:
    ends: list[Ended] = []

    async def stops(ctx: Context) -> str:
        asyncio.get_running_loop().stop()
        return str(await ctx.step("s", lambda: "lived"))

    async def main() -> None:
        async with bench(app_of(stops)) as at:
            ends.append(await at.ended(at.give()))

    loop = uvloop.new_event_loop()
    try:
        run_to_its_end(loop, main())
    finally:
        loop.close()
    assert [(each.status, each.result) for each in ends] == [("succeeded", '"lived"')]


@pytest.mark.parametrize(
    "error", [ValueError("of the worker"), RuntimeError("of the worker"), SystemExit(2)]
)
def test_what_the_worker_itself_raises_ends_it(error: BaseException) -> None:
    async def main() -> None:
        raise error

    loop = uvloop.new_event_loop()
    try:
        with pytest.raises(type(error)):
            run_to_its_end(loop, main())
    finally:
        loop.close()
