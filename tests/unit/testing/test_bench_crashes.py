"""A killed process leaves what a real one leaves, and the ledger goes on from there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.bench_apps import app_of, keyed_effect, one_effect, tool

from streams import Context, Retry
from streams.testing import Bench, Effect, FailedRun, Refused

BOTH = pytest.mark.parametrize("done", [False, True], ids=["before", "after"])


@BOTH
def test_what_happened_is_what_the_process_came_to(done: bool) -> None:
    with Bench(app_of(one_effect)) as bench:
        job = bench.submit("job").crash_in("plain", done=done)
        assert len(job.calls) == done
        assert job.effects == [Effect("plain", "1", {"n": 1}, "claimed")]
        assert job.status == "running"


@BOTH
def test_without_a_key_a_person_is_asked_and_nothing_is_called_again(done: bool) -> None:
    with Bench(app_of(one_effect)) as bench:
        job = bench.submit("job").crash_in("plain", done=done).run()
        bench.advance(40 * 86_400)
        assert (job.status, len(job.calls)) == ("needs_review", done)
        assert job.error == "the outcome of effect plain/1 is unknown"


@BOTH
def test_with_a_key_it_is_called_again_under_it(done: bool) -> None:
    with Bench(app_of(keyed_effect)) as bench:
        job = bench.submit("job").crash_in("keyed", done=done).run()
        assert (job.status, len(job.calls), job.attempts) == ("succeeded", 1 + done, 1)
        assert {call.idempotency_key for call in job.calls} == {job.effects[0].idempotency_key}
        assert job.failed_runs == [FailedRun(1, "lost")]


def test_after_its_lifetime_the_key_is_not_trusted() -> None:
    with Bench(app_of(keyed_effect)) as bench:
        job = bench.submit("job").crash_in("keyed")
        bench._behind.kill_worker()  # no process comes back for an hour
        bench.advance(3_600)
        bench.crash_worker()
        assert job.run().status == "needs_review"


def test_what_a_person_settles_goes_on() -> None:
    with Bench(app_of(one_effect)) as bench:
        job = bench.submit("job").crash_in("plain", done=True).run()
        before = bench.seconds
        job.settle_done("plain/1", {"found": 1}, note="asked").run()
        assert (job.status, job.result, len(job.calls)) == ("succeeded", {"found": 1}, 1)
        assert (job.effects[0].settled_by, job.effects[0].note) == ("bench", "asked")
        assert bench.seconds - before >= 290, "a call might have been under way so long"
        job = bench.submit("job").crash_in("plain").run().settle_not_done("plain/1").run()
        assert (job.status, job.result, len(job.calls)) == ("succeeded", {"did": {"n": 1}}, 1)


def test_a_settlement_is_refused_for_the_products_reasons() -> None:
    with Bench(app_of(one_effect)) as bench:
        job = bench.submit("job").crash_in("plain")
        reasons = []
        for action in ("plain/1", "plain/2"):
            with pytest.raises(Refused) as refusal:
                job.settle_not_done(action)
            reasons.append(refusal.value.reason)
        job.run().settle_done("plain/1").run()
        with pytest.raises(Refused) as refusal:
            job.settle_not_done("plain/1")
        assert [*reasons, refusal.value.reason] == [
            "not_in_review",
            "no_such_effect",
            "already_settled",
        ]


def test_a_killed_process_runs_no_further_line() -> None:
    lines: list[str] = []

    async def beside() -> None:
        await asyncio.sleep(1)
        lines.append("beside")

    async def handle(ctx: Context) -> Any:
        task = asyncio.create_task(beside())
        try:
            return await ctx.effect("keyed", tool, key="1")
        finally:
            lines.append("finally")
            await task

    with Bench(app_of(handle)) as bench:
        bench.submit("job").crash_in("keyed", done=True)
        bench._behind.kill_worker()
        bench.advance(60)
        assert lines == []


def test_other_jobs_of_the_process_are_lost_with_it() -> None:
    with Bench(app_of(keyed_effect)) as bench:
        bench.fake("keyed", takes=20)
        first = bench.submit("job")
        bench.advance(1)
        second = bench.submit("job")
        first.crash_in("keyed", done=True)
        assert [job.run().status for job in (first, second)] == ["succeeded"] * 2
        assert [run.kind for run in second.failed_runs] == ["lost"]


def test_a_job_that_kills_its_worker_again_and_again_is_dead() -> None:
    with Bench(app_of(keyed_effect)) as bench:
        job = bench.submit("job")
        for _ in range(4):
            job.crash_in("keyed")
        job.run()
        assert job.status == "dead"
        assert job.dead_letter is not None
        assert job.dead_letter.reason == "worker_lost"
        assert [run.kind for run in job.failed_runs] == ["lost"] * 4


def test_a_step_is_kept_once_it_is_durable_and_not_before() -> None:
    calls: list[str] = []

    async def handle(ctx: Context) -> Any:
        await ctx.step("one", calls.append, "one")
        return await ctx.effect("keyed", tool, key="1")

    with Bench(app_of(handle)) as bench:
        job = bench.submit("job").crash_in(step="one", done=True)
        assert (job.steps, calls) == ({}, ["one"])
        job.crash_in("keyed")
        assert (job.steps, calls) == ({"one": None}, ["one", "one"])
        job.run()
        assert (job.status, calls) == ("succeeded", ["one", "one"])


def test_a_worker_that_is_cut_off_stops_before_its_lease_is_anothers() -> None:
    stopped_at: list[float] = []

    async def handle(ctx: Context) -> Any:
        try:
            await asyncio.sleep(0 if stopped_at else 100)
        except asyncio.CancelledError:
            stopped_at.append(bench.seconds)
            raise
        return await ctx.effect("plain", tool, key="1")

    with Bench(app_of(handle)) as bench:
        job = bench.submit("job")
        bench.advance(6)
        bench.disconnect()
        cut_at = bench.seconds
        bench.advance(60)
        assert 19 <= stopped_at[0] - cut_at <= 26
        assert (job.calls, job.attempts) == ([], 0)
        bench.connect()
        job.run()
        assert (job.status, len(job.calls)) == ("succeeded", 1)
        assert [run.kind for run in job.failed_runs] == ["lost"]


def test_what_a_cut_off_worker_did_is_told_late_and_counts() -> None:
    with Bench(app_of(one_effect)) as bench:
        bench.fake("plain", returns="did it", takes=10)
        job = bench.submit("job")
        bench.advance(5)
        bench.disconnect()
        bench.advance(40)
        bench.connect()
        job.run()
        assert (job.status, job.result, len(job.calls)) == ("succeeded", "did it", 1)


def test_with_one_attempt_the_first_loss_is_the_end() -> None:
    with Bench(app_of(keyed_effect, retry=Retry(max_attempts=1))) as bench:
        job = bench.submit("job").crash_in("keyed").run()
        assert (job.status, job.calls) == ("dead", [])


def test_a_place_that_is_not_reached_is_told() -> None:
    with Bench(app_of(one_effect)) as bench:
        job = bench.submit("job")
        with pytest.raises(AssertionError, match="did not call 'email'"):
            job.crash_in("email")
        assert job.status == "succeeded"
        with pytest.raises(TypeError, match="a tool or a step"):
            job.pause_in()


def test_an_action_is_told_from_others_of_its_tool() -> None:
    async def handle(ctx: Context) -> None:
        await ctx.effect("keyed", tool, key="1")
        await ctx.effect("keyed", tool, key="2")

    with Bench(app_of(handle)) as bench:
        job = bench.submit("job").crash_in("keyed/2")
        assert [effect.status for effect in job.effects] == ["done", "claimed"]
