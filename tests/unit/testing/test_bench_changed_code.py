"""Code that changed while a job waited: its steps are told apart, and nothing runs twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from streams import App, Context, Retry, TransientError
from streams.testing import Bench, Job, Refused

Handler = Callable[[Context], Awaitable[Any]]
ONCE = Retry(max_attempts=3, backoff=(60,))


class Steps:
    """Counts the calls of steps' functions."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fails = {"send"}

    def do(self, name: str) -> str:
        self.calls.append(name)
        if name in self.fails:
            raise TransientError(f"{name} is away")
        return name.upper()

    def app(self, version: str | None, *names: str, **was: str) -> App:
        """An application whose handler makes these steps after each other."""
        app = App("test", version=version)

        @app.job("job", retry=ONCE)
        async def handler(ctx: Context) -> list[Any]:
            return [await ctx.step(name, self.do, name, was=was.get(name)) for name in names]

        return app


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def bench(steps: Steps) -> Iterator[Bench]:
    with Bench(steps.app("1.4", "draft", "check", "send")) as bench:
        yield bench


@pytest.fixture
def job(bench: Bench, steps: Steps) -> Job:
    """A job whose third step has failed once; it can succeed from now on."""
    job = bench.submit("job").run(runs=1)
    assert job.steps == {"draft": "DRAFT", "check": "CHECK"}
    steps.calls.clear()
    steps.fails.clear()
    return job


def deployed(bench: Bench, job: Job, app: App) -> Job:
    bench.deploy(app)
    return job.run()


def test_the_version_stands_on_the_job_and_on_each_step(
    bench: Bench, job: Job, steps: Steps
) -> None:
    assert (job.record.code, job.record.history[-1].code) == ("1.4", "1.4")
    deployed(bench, job, steps.app("1.5", "draft", "check", "send", "tell"))
    assert (job.status, job.record.code, job.record.code_at_start) == ("succeeded", "1.5", "1.4")
    made = {left.id: left.code for left in bench._behind.pipeline.steps(job.record)}
    assert made == {"draft": "1.4", "check": "1.4", "send": "1.5", "tell": "1.5"}
    assert steps.calls == ["send", "tell"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["write", "check", "send"], "recorded draft, asked write; check"),
        (["draft", "look", "check", "send"], "recorded check, asked look"),
        (["check", "send"], "recorded draft, asked send"),
        (["send", "draft", "check"], "recorded draft, asked send; check"),
    ],
    ids=["renamed", "inserted", "removed", "reordered"],
)
def test_changed_steps_wait_for_a_person_and_are_not_run(
    names: list[str], told: str, bench: Bench, job: Job, steps: Steps
) -> None:
    deployed(bench, job, steps.app("1.5", *names))
    assert job.status == "needs_review"
    calls, _, others = told.partition("; ")
    behind = f"; finished and not asked for yet: {others}" if others else ""
    assert job.error == f"HistoryDiverged: {calls}; code 1.4, now 1.5{behind}"
    bench.advance(7 * 86_400)
    assert (job.status, steps.calls, job.attempts) == ("needs_review", [], 2)


def test_other_code_goes_on_after_a_retry_as_it_is(bench: Bench, job: Job, steps: Steps) -> None:
    deployed(bench, job, steps.app("1.5", "write", "check", "send"))
    job.settle_steps().run()
    assert (job.status, job.record.diverged) == ("needs_review", "draft"), "the code is the same"
    bench.deploy(steps.app("1.6", "draft", "check", "send"))
    job.settle_steps().run()
    assert (job.status, steps.calls, job.attempts) == ("succeeded", ["send"], 2)
    assert job.record.diverged is None


def test_a_kept_step_need_not_be_asked_for_and_a_dropped_one_is_gone(
    bench: Bench, job: Job, steps: Steps
) -> None:
    deployed(bench, job, steps.app("1.5", "write", "send", "check"))
    job.settle_steps(keep=["draft"]).run()
    assert job.record.diverged == "check", "it stands before send"
    assert job.steps == {"draft": "DRAFT", "check": "CHECK", "write": "WRITE"}
    job.settle_steps(drop=["check"]).run()
    assert (job.status, steps.calls) == ("succeeded", ["write", "send", "check"])
    assert list(job.steps) == ["draft", "check", "write", "send"]


def test_what_cannot_be_decided_is_refused(bench: Bench, job: Job, steps: Steps) -> None:
    job.settle_steps()  # it does not wait: ignored, as a decision that is read twice
    deployed(bench, job, steps.app("1.5", "write"))
    with pytest.raises(Refused) as refused:
        job.settle_steps(keep=["draft"], drop=["other"])
    assert refused.value.reason == "no_such_step"
    assert job.record.diverged == "draft"
    assert {left.position for left in bench._behind.pipeline.steps(job.record)} == {0, 1}


def test_a_renamed_step_gets_the_result_of_its_earlier_name(
    bench: Bench, job: Job, steps: Steps
) -> None:
    deployed(bench, job, steps.app("1.5", "write", "check", "send", write="draft"))
    assert (job.status, job.result) == ("succeeded", ["DRAFT", "CHECK", "SEND"])
    assert list(job.steps) == ["draft", "check", "send"]
    fresh = bench.submit("job", key="another").run()
    assert list(fresh.steps) == ["write", "check", "send"]


def test_a_job_that_is_cancelled_while_it_diverged_has_ended(
    bench: Bench, job: Job, steps: Steps
) -> None:
    deployed(bench, job, steps.app("1.5", "write")).cancel("given up")
    assert (job.status, job.record.diverged) == ("cancelled", None)


def waiting(version: str, steps: Steps, *, patch: bool, rename: str = "sleep") -> App:
    """An application whose handler waits a day between two steps, perhaps with a patch before."""
    app = App("test", version=version)

    @app.job("job", retry=ONCE)
    async def handler(ctx: Context) -> list[Any]:
        made = [await ctx.step("draft", steps.do, "draft")]
        if patch and ctx.patched("look"):
            made.append(await ctx.step("look", steps.do, "look"))
        await ctx.sleep(86_400, name=rename)
        return [*made, await ctx.step("end", steps.do, "end")]

    return app


def test_a_job_that_waited_keeps_its_way_and_a_new_one_takes_the_patch(steps: Steps) -> None:
    with Bench(waiting("1.4", steps, patch=False)) as bench:
        old = bench.submit("job", key="old")
        bench.advance(60)
        assert old.status == "waiting"
        bench.deploy(waiting("1.5", steps, patch=True))
        new = bench.submit("job", key="new")
        bench.advance(90_000)
        assert [old.result, new.result] == [["DRAFT", "END"], ["DRAFT", "LOOK", "END"]]
        assert steps.calls.count("draft") == 2, "once for each"
        assert list(new.steps) == ["draft", "!look", "look", "sleep", "end"]


def test_a_wait_that_was_renamed_meanwhile_is_a_divergence(steps: Steps) -> None:
    with Bench(waiting("1.4", steps, patch=False)) as bench:
        job = bench.submit("job")
        bench.advance(60)
        bench.deploy(waiting("1.5", steps, patch=False, rename="pause"))
        bench.advance(90_000)
        assert job.error == "HistoryDiverged: recorded sleep, asked pause; code 1.4, now 1.5"


def test_a_patch_is_durable_before_the_job_parks(steps: Steps) -> None:
    app = App("test")

    @app.job("job")
    async def handler(ctx: Context) -> list[Any]:
        made = [await ctx.step("draft", steps.do, "draft")]
        if ctx.patched("pause"):
            await ctx.sleep(60)
            made.append("paused")
        return [*made, await ctx.step("end", steps.do, "end")]

    with Bench(app) as bench:
        job = bench.submit("job")
        bench.advance(3_600)
        assert (job.status, job.result) == ("succeeded", ["DRAFT", "paused", "END"])


def test_a_job_that_older_code_wakes_repeats_nothing_and_goes_on_with_its_own(steps: Steps) -> None:
    with Bench(waiting("1.5", steps, patch=True)) as bench:
        job = bench.submit("job")
        bench.advance(60)
        bench.deploy(waiting("1.4", steps, patch=False))  # the release is taken back
        bench.advance(90_000)
        assert (job.status, job.record.diverged is None) == ("needs_review", False)
        bench.deploy(waiting("1.6", steps, patch=True))
        assert job.settle_steps().run().result == ["DRAFT", "LOOK", "END"]
        assert sorted(steps.calls) == ["draft", "end", "look"]
