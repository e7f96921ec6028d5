"""Dispatcher and workers die at each of their steps: every job ends as it should (G2 to G5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import KafkaUnderTest
from fault_points import LEAVING_STEPS, STEPS, WORKER_STEPS
from jobs_under_load import JobsUnderLoad

pytestmark = [pytest.mark.broker, pytest.mark.chaos]


@pytest.fixture
def jobs(kafka: KafkaUnderTest, tmp_path: Path) -> Iterator[JobsUnderLoad]:
    with JobsUnderLoad(kafka, tmp_path) as running:
        yield running


def test_the_dispatcher_is_killed_at_each_step(jobs: JobsUnderLoad) -> None:
    for step in (*STEPS, "punctuated"):
        jobs.strike("dispatcher", step)
        jobs.start("dispatcher")
        jobs.await_ends()
    assert jobs.verdict() == []


def test_the_dispatcher_is_killed_at_each_step_and_loses_its_disk(jobs: JobsUnderLoad) -> None:
    for step in (*STEPS, "punctuated"):
        jobs.strike("dispatcher", step)
        jobs.strike_restoring()
        jobs.start("dispatcher")
        jobs.await_ends()
    assert jobs.verdict() == []


def test_a_worker_is_killed_at_each_step(jobs: JobsUnderLoad) -> None:
    for step in WORKER_STEPS:
        jobs.strike("w1", step)
        jobs.start("w1")
        jobs.await_ends()
    assert jobs.verdict() == []


def test_a_worker_is_killed_while_it_leaves(jobs: JobsUnderLoad) -> None:
    for step in LEAVING_STEPS:
        jobs.strike("w1", step, leaving=True)
        jobs.start("w1")
        jobs.await_ends()
    assert jobs.verdict() == []


def test_dispatcher_and_worker_are_killed_together(jobs: JobsUnderLoad) -> None:
    for step in ("called pay", "acked Outcome", "sends Ended", "acked Heartbeat"):
        jobs.strike("w1", step)
        jobs.named["dispatcher"].kill()
        jobs.start("dispatcher")
        jobs.start("w1")
        jobs.await_ends()
    assert jobs.verdict() == []
