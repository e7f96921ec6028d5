"""What the dispatcher is in no hurry about: ends that free nothing anybody waits for, and rest."""

from __future__ import annotations

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.runtime.link import LINK
from streams.runtime.processor import Record


@pytest.fixture
def desk() -> Desk:
    return Desk()


def may_wait(desk: Desk, number: int = 1) -> bool:
    """Whether the newest commands could wait, if they had not been handled yet."""
    return desk.driver.task("dispatcher").may_wait(desk.orders[-number:])


def rests(desk: Desk) -> bool:
    return desk.driver.task("dispatcher").rests()


def test_an_end_in_success_waits_for_other_records_unless_a_job_waits_for_it(desk: Desk) -> None:
    worker, first = ScriptedWorker(desk, slots=1), desk.event("t1")
    worker.heartbeat()
    worker.end(desk.lease(first), "succeeded", free=0)
    assert may_wait(desk)
    assert not may_wait(desk, 2), "a heartbeat does not"
    desk.event("t2")
    assert not may_wait(desk)


@pytest.mark.parametrize("status", ["retry", "failed", "review", "released"])
def test_other_ends_are_urgent(desk: Desk, status: str) -> None:
    worker, job_id = ScriptedWorker(desk), desk.event("t1")
    worker.heartbeat()
    worker.end(desk.lease(job_id), status, after=100)
    assert not may_wait(desk)


def test_an_outcome_waits_for_the_end_of_its_run_and_a_claim_for_nothing(desk: Desk) -> None:
    worker, job_id = ScriptedWorker(desk), desk.event("t1")
    worker.heartbeat()
    reply = worker.claim(desk.lease(job_id))
    assert not may_wait(desk)
    worker.outcome(desk.lease(job_id), reply, "done")
    assert may_wait(desk)


def test_other_records_are_urgent_and_so_is_what_cannot_be_decoded(desk: Desk) -> None:
    task = desk.driver.task("dispatcher")
    desk.event("t1")
    ScriptedWorker(desk).heartbeat()
    assert not task.may_wait(desk.driver.output("events"))
    for topic in ("jobs.commands", LINK):
        assert not task.may_wait([Record(topic, 0, 0, 1, b"k", b"no command")])


def test_it_rests_unless_a_job_waits_or_its_jobs_are_looked_at(desk: Desk) -> None:
    desk.driver.advance(1)
    assert rests(desk)
    job_id = desk.event("t1")
    assert not rests(desk), "it waits for a worker"
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    assert rests(desk), "it runs"
    worker.end(desk.lease(job_id), "succeeded")
    desk.driver.restart("dispatcher")
    assert not rests(desk), "it has not looked at its jobs"
    desk.driver.advance(1)
    assert rests(desk)
