"""Worker and dispatcher die around the parks of many jobs: each goes on once for each answer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
from support.conditions import eventually
from support.fault_points import STEPS
from support.jobs_under_load import JobsUnderLoad
from support.kafka_under_test import KafkaUnderTest

pytestmark = [pytest.mark.broker, pytest.mark.chaos]

WAITS = 16
"""Jobs of each tenant in a round."""
PARK_STEPS = ("sends Park", "acked Park", "resumed")
"""The worker's steps: before a park is sent, before it is committed, and after it was answered."""


@pytest.fixture(params=[False, True], ids=["apart", "fused"])
def jobs(
    request: pytest.FixtureRequest, kafka: KafkaUnderTest, tmp_path: Path
) -> Iterator[JobsUnderLoad]:
    with JobsUnderLoad(kafka, tmp_path, fused=request.param) as running:
        yield running


def test_jobs_go_on_once_whoever_is_killed_around_their_parks(jobs: JobsUnderLoad) -> None:
    ask = partial(jobs.ask_to_wait, WAITS)
    for park_step, step in zip(cycle(PARK_STEPS), STEPS, strict=False):
        struck = jobs.strike(park_step, "w1", "w2", ask=ask)
        dispatcher = jobs.named[jobs.dispatcher]
        dispatcher.points.arm(step, signal.SIGKILL)
        for name in struck:
            jobs.start(name)
        jobs.answer()
        eventually(lambda: dispatcher.points.landed, what=f"SIGKILL landed at {step}")  # noqa: B023
        assert dispatcher.exit_code() == -signal.SIGKILL
        jobs.start(jobs.dispatcher)
        jobs.await_ends()
    assert jobs.verdict() == []


def test_jobs_go_on_once_though_the_dispatcher_lost_its_disk_while_they_waited(
    jobs: JobsUnderLoad,
) -> None:
    for step in ("before_commit", "after_commit"):
        jobs.strike(step, jobs.dispatcher, ask=partial(jobs.ask_to_wait, WAITS))
        jobs.strike_restoring()
        jobs.answer()
        jobs.start(jobs.dispatcher)
        jobs.await_ends()
    assert jobs.verdict() == []
