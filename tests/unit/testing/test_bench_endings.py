"""Jobs of a bench end as the product ends them, and show what led there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.bench_apps import app_of, keyed_effect, one_effect, tool

from streams import Context, PermanentError, Retry, RetryAfter, TransientError
from streams.testing import Bench, DeadLetter, Effect, FailedRun, Refused


def raising(*errors: BaseException) -> Any:
    """A handler that raises these, one in each attempt, and then succeeds."""

    async def handle(ctx: Context) -> str:
        if ctx.attempt <= len(errors):
            raise errors[ctx.attempt - 1]
        return "at last"

    return handle


@pytest.mark.parametrize(
    ("error", "least", "most"),
    [(TransientError("x"), 10, 12.5), (RetryAfter(7), 7, 7.7), (KeyError("x"), 10, 12.5)],
)
def test_an_attempt_that_failed_is_followed_by_another(
    error: Exception, least: float, most: float
) -> None:
    with Bench(app_of(raising(error))) as bench:
        job = bench.submit("job")
        job.run(runs=1)
        assert (job.status, job.attempts) == ("scheduled", 1)
        assert bench.seconds < 1
        job.run()
        assert (job.status, job.result, job.attempts) == ("succeeded", "at last", 2)
        (failed,) = job.failed_runs
        assert failed.retry_in is not None
        assert least <= failed.retry_in <= most
        assert bench.seconds == pytest.approx(0.2 + failed.retry_in, abs=0.1)


def test_the_last_attempt_ends_in_the_dead_letters() -> None:
    with Bench(app_of(raising(*[TransientError("busy")] * 3))) as bench:
        job = bench.submit("job").run()
        assert (job.status, job.attempts, job.error) == ("dead", 3, "TransientError: busy")
        assert job.failed_runs == [FailedRun(n, "failed") for n in (1, 2, 3)]
        assert job.failed_runs[-1].retry_in is None
        assert job.dead_letter == DeadLetter("attempts_exhausted")


def test_a_permanent_error_ends_at_once() -> None:
    with Bench(app_of(raising(PermanentError("no such order")))) as bench:
        job = bench.submit("job").run()
        assert (job.status, job.attempts) == ("failed", 1)
        assert job.dead_letter is not None
        assert job.dead_letter.reason == "permanent_error"
        assert job.dead_letter.detail == "PermanentError: no such order"


def test_a_handler_that_takes_too_long_is_cancelled_and_tried_again() -> None:
    cancelled: list[int] = []

    async def handle(ctx: Context) -> str:
        try:
            await asyncio.sleep(61 if ctx.attempt == 1 else 59)
        except asyncio.CancelledError:
            cancelled.append(ctx.attempt)
            raise
        return "in time"

    with Bench(app_of(handle, timeout=60)) as bench:
        job = bench.submit("job").run()
        assert (job.status, cancelled) == ("succeeded", [1])
        assert job.failed_runs == [FailedRun(1, "timeout")]


def test_the_submissions_own_timeout_counts() -> None:
    async def handle(ctx: Context) -> None:
        await asyncio.sleep(20)

    with Bench(app_of(handle, retry=Retry(max_attempts=1))) as bench:
        assert bench.submit("job", timeout_seconds=10).run().status == "dead"
        assert bench.submit("job", timeout_seconds=30).run().status == "succeeded"


def test_a_preflight_that_says_no_cancels() -> None:
    app = app_of(one_effect)

    @app.preflight("job")
    async def wanted(ctx: Context) -> bool:
        return bool(ctx.input["wanted"])

    with Bench(app) as bench:
        job = bench.submit("job", {"wanted": False}).run()
        assert (job.status, job.effects) == ("cancelled", [])
        assert job.error == "preflight: no longer wanted"
        assert bench.submit("job", {"wanted": True}).run().status == "succeeded"


def test_a_job_that_waits_is_cancelled_at_once() -> None:
    with Bench(app_of(one_effect)) as bench:
        job = bench.submit("job", delay_seconds=60).cancel("not needed")
        assert (job.status, job.error) == ("cancelled", "Cancelled: not needed")
        bench.advance(120)
        assert job.calls == []


def test_an_effect_under_way_at_the_cancel_is_recorded_as_what_it_was() -> None:
    async def stubborn(idempotency_key: str, n: int) -> int:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return n
        return 0

    with Bench(app_of(one_effect)) as bench:
        bench.fake("plain", calls=stubborn)
        job = bench.submit("job")
        bench.advance(5)
        job.cancel().run()
        assert job.status == "cancelled"
        assert job.effects == [Effect("plain", "1", {"n": 1}, "done", 1)]


def test_progress_and_steps_are_shown_in_their_order() -> None:
    async def handle(ctx: Context) -> None:
        for name in ("z", "a", "m"):
            await ctx.step(name, str.upper, name)
            await ctx.progress({"step": name})

    with Bench(app_of(handle)) as bench:
        job = bench.submit("job").run()
        assert list(job.steps.items()) == [("z", "Z"), ("a", "A"), ("m", "M")]
        assert job.progress == [{"step": "z"}, {"step": "a"}, {"step": "m"}]


@pytest.mark.parametrize("handler", [one_effect, keyed_effect])
def test_a_dead_job_is_replayed_in_its_scope_or_in_a_fresh_one(handler: Any) -> None:
    failing = [True]

    async def handle(ctx: Context) -> Any:
        result = await handler(ctx)
        if failing[0]:
            raise TransientError("later")
        return result

    with Bench(app_of(handle)) as bench:
        job = bench.submit("job").run()
        assert (job.status, len(job.calls)) == ("dead", 1)
        failing[0] = False
        same = job.replay(note="mended").run()
        assert (same.status, same.calls, same.effects) == ("succeeded", [], job.effects)
        assert (same.record.replay_of, same.record.replay_note) == (job.id, "mended")
        with pytest.raises(Refused) as refusal:
            job.replay()
        assert refusal.value.reason == "already_replayed"
        action = job.effects[0].action
        with pytest.raises(Refused) as refusal:
            job.replay(again=True, fresh_scope=True)
        assert refusal.value.reason == "effects_done"
        fresh = job.replay(again=True, fresh_scope=True, repeat_effects=[action]).run()
        assert (fresh.status, len(fresh.calls)) == ("succeeded", 1)
        assert fresh.effects[0].idempotency_key != job.effects[0].idempotency_key
        with pytest.raises(Refused) as refusal:
            fresh.replay()
        assert refusal.value.reason == "not_replayable"


def test_a_scope_with_a_live_job_takes_no_replay() -> None:
    with Bench(app_of(raising(PermanentError("x")))) as bench:
        job = bench.submit("job").run()
        job.replay(again=True)
        with pytest.raises(Refused) as refusal:
            job.replay(again=True)
        assert refusal.value.reason == "scope_in_use"


def test_jobs_run_beside_each_other() -> None:
    async def handle(ctx: Context) -> None:
        await ctx.effect("plain", tool, key="1", n=ctx.input)

    with Bench(app_of(handle)) as bench:
        bench.fake("plain", takes=10)
        jobs = [bench.submit("job", n) for n in range(3)]
        started = bench.seconds
        assert [job.run().status for job in jobs] == ["succeeded"] * 3
        assert bench.seconds - started < 11
        assert jobs[1].effects == [Effect("plain", "1", {"n": 1})]
