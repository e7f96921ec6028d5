"""Workflows in a bench: the topic `workflows` counts the jobs of each, beside the queue."""

from __future__ import annotations

from typing import Any

import pytest

from streams import App, Context, PermanentError
from streams.serde.codec import WORKFLOW
from streams.serde.keys import workflow_key
from streams.serde.records import Workflow
from streams.testing import Bench, Job, crash_points


async def tree(ctx: Context) -> Any:
    jobs = [ctx.child("leaf", n) for n in ctx.input["leaves"]]
    return await ctx.gather(jobs, key="all", on_failure="collect", limit=2) and None


async def leaf(ctx: Context) -> Any:
    if ctx.input < 0:
        raise PermanentError("below zero")
    if ctx.input > 99:
        await ctx.sleep(ctx.input)
    return ctx.input


def app() -> App:
    made = App("trees")
    made.job("tree")(tree)
    made.job("leaf")(leaf)
    return made


def workflows(bench: Bench, job: Job) -> list[Workflow]:
    """Every record of a job's workflow."""
    place = workflow_key(job.record.tenant_id, job.record.workflow_id or "")
    records = bench._behind.pipeline.output("workflows")
    return [WORKFLOW.decode(each.value) for each in records if each.key == place]


def test_a_workflow_tells_how_many_jobs_are_in_each_state() -> None:
    with Bench(app()) as bench:
        job = bench.submit("tree", {"leaves": [1, 2, 100, -1]}).run()
        found = workflows(bench, job)[-1]
        assert (found.workflow_id, found.root_job_id, found.root_type) == (job.id, job.id, "tree")
        assert found.status == "running"
        assert found.jobs == {"succeeded": 2, "failed": 1, "waiting": 2}
        assert found.error == "PermanentError: below zero"
        bench.advance(101)
        job.run()
        found = workflows(bench, job)[-1]
        assert (found.status, found.jobs, found.kept) == (
            "succeeded",
            {"succeeded": 4, "failed": 1},
            5,
        )


@pytest.mark.parametrize("leaves", [[1, -2, 3]])
def test_it_counts_each_job_once_wherever_a_run_is_lost(leaves: list[int]) -> None:
    for crash in crash_points():
        with Bench(app(), crash=crash) as bench:
            job = bench.submit("tree", {"leaves": leaves}, key="1").run()
            found = workflows(bench, job)[-1]
            assert (found.status, found.jobs) == ("succeeded", {"succeeded": 3, "failed": 1})


def test_a_job_without_others_makes_no_workflow() -> None:
    with Bench(app()) as bench:
        bench.submit("leaf", 1).run()
        assert bench._behind.pipeline.output("workflows") == []


def test_the_record_of_a_workflow_does_not_grow_with_its_jobs() -> None:
    with Bench(app()) as bench:
        job = bench.submit("tree", {"leaves": list(range(60))}).run()
        sizes = [len(WORKFLOW.encode(each)) for each in workflows(bench, job)]
        assert max(sizes) - min(sizes) < 40


def test_its_record_goes_with_the_last_of_its_jobs() -> None:
    with Bench(app()) as bench:
        job = bench.submit("tree", {"leaves": [1, 2]}).run()
        bench.advance(31 * 86_400)
        place = workflow_key(job.record.tenant_id, job.id)
        last = [each for each in bench._behind.pipeline.output("workflows") if each.key == place]
        assert last[-1].value is None


async def failing(ctx: Context) -> Any:
    sleeper = await ctx.enqueue("leaf", 100)
    await ctx.enqueue("leaf", -1, wait=True)
    await sleeper


def test_its_error_is_of_the_job_that_failed_and_not_of_one_that_ended_with_it() -> None:
    made = app()
    made.job("failing")(failing)
    with Bench(made) as bench:
        job = bench.submit("failing").run()
        bench.advance(1)
        found = workflows(bench, job)[-1]
        assert (found.status, found.jobs) == ("failed", {"failed": 2, "cancelled": 1})
        assert (found.failed_job_id, (found.error or "")[:12]) == (job.id, "ChildFailed:")
