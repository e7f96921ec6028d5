"""A test's loop over crash points: each is passed once, named, and survived as a real one is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.bench_apps import Handler, app_of, keyed_effect, one_effect, tool

from streams import Context
from streams.errors import ConfigError
from streams.testing import Bench, Call, crash_points


def points_of(handler: Handler, *, decide: str = "") -> list[str]:
    """Where a job's worker died, with the job's end after each."""
    passed = []
    for crash in crash_points():
        with Bench(app_of(handler), crash=crash) as bench:
            job = bench.submit("job", key="1").run()
            bench.deliver("paid", subject="s1")
            if decide:
                job.approve(decide)
            job.run()
            assert job.status == "succeeded"
            passed.append(str(crash).partition(": ")[2])
    return passed[1:]


async def all_kinds(ctx: Context) -> Any:
    paid = await ctx.listen({"subject": "s1"})
    text = await ctx.step("text", str, 7)
    if (await ctx.approval("ok", prompt="?")).approved:
        await ctx.effect("keyed", tool, key="1", text=text)
    await paid
    return text


def test_every_point_at_which_a_run_can_be_lost_is_passed_once_and_named() -> None:
    assert points_of(all_kinds, decide="ok") == [
        "before the run began (run 1 of job)",
        "before the job listened to event (run 1 of job)",
        "after the job listened to event (run 1 of job)",
        "before step text ran (run 1 of job)",
        "after step text ran, before its value was kept (run 1 of job)",
        "after the value of step text was kept (run 1 of job)",
        "before people were asked for ok (run 1 of job)",
        "after people were asked for ok (run 1 of job)",
        "before the job was parked for approval[ok] (run 1 of job)",
        "after the job was parked for approval[ok] (run 1 of job)",
        "before ok was decided (run 1 of job)",
        "after the decision on ok was kept (run 2 of job)",
        "before the run began (run 2 of job)",
        "before effect keyed/1 was claimed (run 2 of job)",
        "after effect keyed/1 was claimed, before the run was answered (run 2 of job)",
        "after effect keyed/1 was called, before its outcome was kept (run 2 of job)",
        "before the end of the run was kept: succeeded (run 2 of job)",
        "after the outcome of effect keyed/1 was kept (run 2 of job)",
        "after the end of the run was kept: succeeded (run 2 of job)",
    ]


def test_a_park_a_resume_and_the_first_of_two_waits_are_points() -> None:
    async def handle(ctx: Context) -> str:
        ctx.patched("new")
        came, _ = await ctx.first(paid=ctx.wait_for_event({"subject": "s1"}), time=ctx.sleep(60))
        return came

    assert points_of(handle) == [
        "before the run began (run 1 of job)",
        "before the answer of ctx.patched was kept (run 1 of job)",
        "after the answer of ctx.patched was kept (run 1 of job)",
        "before the job was parked for event, sleep (run 1 of job)",
        "after the job was parked for event, sleep (run 1 of job)",
        "before the run began (run 2 of job)",
        "before it was kept which wait came first (run 2 of job)",
        "after it was kept which wait came first (run 2 of job)",
        "before the end of the run was kept: succeeded (run 2 of job)",
        "after the end of the run was kept: succeeded (run 2 of job)",
    ]


def test_a_failure_names_its_crash_point() -> None:
    async def forgetful(ctx: Context) -> None:
        await ctx.effect("keyed", tool, key=ctx.run_id)  # another key in each run

    def mail_is_sent_once() -> None:
        for crash in crash_points():
            with Bench(app_of(forgetful), crash=crash) as bench:
                job = bench.submit("job").run()
                assert len(job.happened) == 1

    with pytest.raises(AssertionError) as failed:
        mail_is_sent_once()
    (note,) = failed.value.__notes__
    assert note.startswith("crash point 4 of 7: after effect keyed/")
    assert note.endswith(" was called, before its outcome was kept (run 1 of job)")


def fail_in_each_pass(notes: list[str]) -> None:
    crash = next(passes := crash_points())
    for _ in range(2):
        try:
            with Bench(app_of(one_effect), crash=crash) as bench:
                if not notes:
                    bench.submit("job").run()
                raise LookupError
        except LookupError as error:
            notes += error.__notes__
            crash = next(passes)


def test_a_failure_without_a_crash_or_before_it_says_so() -> None:
    notes: list[str] = []
    with pytest.raises(AssertionError, match="let each pass do the same, up to its crash"):
        fail_in_each_pass(notes)
    assert notes == [
        "no crash: the first pass finds the crash points",
        "crash point 1 of 7, not reached so far: before the run began (run 1 of job)",
    ]


def test_a_loop_without_a_job_in_a_bench_of_its_crash_fails() -> None:
    passes = crash_points()
    next(passes)
    with pytest.raises(AssertionError, match="no crash point: run a job"):
        next(passes)


def test_a_crash_is_of_one_bench() -> None:
    crash = next(crash_points())
    with Bench(app_of(one_effect), crash=crash), pytest.raises(ConfigError, match="one bench"):
        Bench(app_of(one_effect), crash=crash)


def test_a_killed_process_runs_no_further_line() -> None:
    async def handle(ctx: Context) -> None:
        try:
            await ctx.effect("keyed", tool, key="1")
        finally:
            lines.append("after the effect")

    for crash in crash_points():
        lines: list[str] = []
        with Bench(app_of(handle), crash=crash) as bench:
            bench.submit("job").run()
            twice = "before the end of the run" in str(crash)
            assert len(lines) == (2 if twice else 1), str(crash)


def test_two_jobs_of_one_type_are_told_apart() -> None:
    seen = []
    for crash in crash_points():
        with Bench(app_of(one_effect), crash=crash) as bench:
            for key in "ab":
                assert bench.submit("job", key=key).run().status in ("succeeded", "needs_review")
        seen.append(str(crash))
    assert sum("(run 1 of job)" in each for each in seen) == 7
    assert sum("(run 1 of job, job 2)" in each for each in seen) == 7


def test_a_crash_while_a_test_stands_in_a_call() -> None:
    for crash in crash_points():
        with Bench(app_of(keyed_effect), crash=crash) as bench:
            job = bench.submit("job").pause_in("keyed")
            bench.advance(1)
            assert job.run().status == "succeeded"
            assert job.happened == [Call("keyed", "1", {"n": 1})]


def test_what_happened_is_what_the_tools_make_of_the_calls() -> None:
    with Bench(app_of(keyed_effect)) as bench:
        bench.fake("keyed", in_turn=[ConnectionResetError(), {}])
        job = bench.submit("job").run()
        assert (len(job.calls), len(job.happened)) == (2, 1)
        job = bench.submit("job").crash_in("keyed", done=True).run()
        assert (len(job.calls), len(job.happened), len(bench.happened)) == (2, 1, 2)
        calls = bench._behind.tools.returned[-1:] * 2
        late = Call("keyed", "1", {}, calls[0].idempotency_key, job.id, 2, calls[0].at + 3_600)
        bench._behind.tools.returned.append(late)
        assert len(job.happened) == 2, "the tool has forgotten the key"
    with Bench(app_of(one_effect)) as bench:
        job = bench.submit("job").crash_in("plain", done=True).run().settle_not_done("plain/1")
        assert len(job.run().happened) == 2, "a wrong answer of a person calls again"


async def test_in_an_event_loop() -> None:
    ended = set()
    for crash in crash_points():
        with Bench(app_of(keyed_effect), crash=crash) as bench:
            job = bench.submit("job")
            await asyncio.to_thread(job.run)
            ended.add((job.status, len(job.happened)))
    assert ended == {("succeeded", 1)}
