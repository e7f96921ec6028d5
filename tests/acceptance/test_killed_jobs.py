"""Dispatcher and workers die at each of their steps: every job ends as it should (G2 to G5)."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fault_points import LEAVING_STEPS, STEPS, WORKER_STEPS
from support.jobs_under_load import JobsUnderLoad
from support.kafka_under_test import KafkaUnderTest

pytestmark = [pytest.mark.broker, pytest.mark.chaos]


@pytest.fixture(params=[False, True], ids=["apart", "fused"])
def jobs(
    request: pytest.FixtureRequest, kafka: KafkaUnderTest, tmp_path: Path
) -> Iterator[JobsUnderLoad]:
    """Every test is of stages apart, and of stages that are fused."""
    with JobsUnderLoad(kafka, tmp_path, fused=request.param) as running:
        yield running


def test_the_dispatcher_is_killed_at_each_step(jobs: JobsUnderLoad) -> None:
    for step in (*STEPS, "punctuated"):
        jobs.strike(step, jobs.dispatcher)
        jobs.start(jobs.dispatcher)
        jobs.await_ends()
    assert jobs.verdict() == []


def test_the_dispatcher_is_killed_at_each_step_and_loses_its_disk(jobs: JobsUnderLoad) -> None:
    for step in (*STEPS, "punctuated"):
        jobs.strike(step, jobs.dispatcher)
        jobs.strike_restoring()
        jobs.start(jobs.dispatcher)
        jobs.await_ends()
    assert jobs.verdict() == []


def test_a_worker_is_killed_at_each_step(jobs: JobsUnderLoad) -> None:
    for step in WORKER_STEPS:
        for name in jobs.strike(step, "w1", "w2"):
            jobs.start(name)
        jobs.await_ends()
    assert jobs.verdict() == []


def test_a_worker_is_killed_while_it_leaves(jobs: JobsUnderLoad) -> None:
    for step in LEAVING_STEPS:
        for name in jobs.strike(step, "w1", leaving=True):
            jobs.start(name)
        jobs.await_ends()
    assert jobs.verdict() == []


def test_dispatcher_and_worker_are_killed_together(jobs: JobsUnderLoad) -> None:
    for step in ("called pay", "acked Outcome", "sends Ended", "acked Heartbeat"):
        struck = jobs.strike(step, "w1", "w2")
        jobs.named[jobs.dispatcher].kill()
        for name in (jobs.dispatcher, *struck):
            jobs.start(name)
        jobs.await_ends()
    assert jobs.verdict() == []


def test_the_layout_is_switched_under_load(jobs: JobsUnderLoad) -> None:
    """Stages that are told to end, and stages that are killed, in both directions."""
    for step in ("", "", "before_commit", "after_commit"):
        if step:
            jobs.strike(step, jobs.dispatcher)
        else:
            jobs.ask()
        for name in jobs.stages:
            jobs.named[name].kill() if step else jobs.named[name].stop()
        jobs.switch()
        jobs.await_ends()
    assert jobs.verdict() == []


def test_the_other_layout_is_refused_while_one_runs_and_while_it_has_the_positions(
    jobs: JobsUnderLoad,
) -> None:
    jobs.ask()
    jobs.await_ends()
    other = "dedup" if jobs.fused else "pipeline"
    way_out = f"run `tidegate topology layout {'apart' if jobs.fused else 'fused'}`"
    intruder = jobs.start(other)
    assert intruder.exit_code() == 1
    assert "it does the same work in the other layout" in intruder.lines
    for name in jobs.stages:
        jobs.named[name].stop()
    jobs.await_session_ends()
    intruder = jobs.start(other)
    assert intruder.exit_code() == 1
    assert "has the positions" in intruder.lines
    assert way_out in intruder.lines
    for name in jobs.stages:
        jobs.start(name)
    assert jobs.verdict() == []


def test_a_process_that_was_frozen_while_the_layout_was_changed_ends(jobs: JobsUnderLoad) -> None:
    """Its group, which it would join again, has no positions any more."""
    jobs.ask()
    jobs.await_ends()
    *others, frozen = (jobs.named[name] for name in jobs.stages)
    frozen.signal(signal.SIGSTOP)
    for process in others:
        process.stop()
    jobs.switch()
    for name in jobs.stages:
        jobs.named[name].wait_for('"event": "running"')
    frozen.signal(signal.SIGCONT)
    assert frozen.exit_code() == 1
    assert "the other layout" in frozen.lines
    jobs.ask()
    jobs.await_ends()
    assert jobs.verdict() == []
