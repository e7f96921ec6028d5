"""Deadlines: a job that has not begun in time is cancelled, and says so."""

from __future__ import annotations

from typing import cast

import pytest
from support.dispatching import Desk
from support.flow_control import deploy, event, kept, leased, routed, statuses, typed, worker

from streams.runtime.memory_broker import CrashPoint
from streams.topology.flow_control import Debounce, Singleton
from streams.topology.model import JobType


@pytest.fixture
def desk() -> Desk:
    return routed(expires_after_seconds=60)


def test_a_job_that_has_not_begun_in_time_is_cancelled_and_says_so(desk: Desk) -> None:
    job_id, at = event(desk, "e1"), desk.driver.now
    assert desk.job(job_id).expires_at == at + 60_000
    desk.driver.advance(59)
    assert statuses(desk, job_id) == ["pending"]
    desk.driver.advance(2)
    job = desk.job(job_id)
    assert (job.status, job.end_reason) == ("cancelled", "expired")
    assert "expires_after_seconds" in (job.last_error or "")
    assert kept(desk) == []
    worker(desk).heartbeat()
    assert leased(desk) == []
    assert desk.dead_letters() == []


def test_a_job_that_has_begun_goes_on(desk: Desk) -> None:
    at = worker(desk, backoff=(100,))
    at.heartbeat()
    job_id = event(desk, "e1")
    assert kept(desk) == []
    at.end(desk.lease(job_id), "retry", error="TransientError: x", free=0)
    at.stay(130, free=0)
    assert statuses(desk, job_id) == ["pending"]
    at.heartbeat()
    assert statuses(desk, job_id) == ["running"]


def test_none_begins_late_also_if_the_first_look_is_that_of_a_lease(desk: Desk) -> None:
    """So it is once a dispatcher comes back after the time."""
    job_id, at = event(desk, "e1"), worker(desk)
    with desk.held_back():
        desk.driver._clock.ms += 61_000  # nothing ticks meanwhile
        at.heartbeat()
    desk.driver.advance(1)
    assert (leased(desk), statuses(desk, job_id)) == ([], ["cancelled"])


@pytest.mark.parametrize("keep_state", [True, False])
def test_a_restart_forgets_no_deadline(desk: Desk, keep_state: bool) -> None:
    ids = [event(desk, f"e{n}") for n in range(3)]
    desk.driver.restart("dispatcher", keep_state=keep_state)
    desk.driver.advance(61)
    assert statuses(desk, *ids) == ["cancelled"] * 3
    assert kept(desk) == []


@pytest.mark.parametrize("point", ["produced", "before_commit", "after_commit", "after_write"])
def test_a_crash_while_jobs_expire_ends_each_once(desk: Desk, point: str) -> None:
    with desk.held_back():
        ids = [event(desk, f"e{n}") for n in range(450)]
    desk.driver.crash("dispatcher", cast(CrashPoint, point))
    desk.driver.advance(65)
    assert set(statuses(desk, *ids)) == {"cancelled"}
    assert kept(desk) == []


def test_many_jobs_expire_in_parts(desk: Desk) -> None:
    with desk.held_back():
        ids = [event(desk, f"e{n}") for n in range(450)]
    desk.abort()
    desk.driver.advance(62)
    assert set(statuses(desk, *ids)) == {"cancelled"}


def test_the_time_counts_from_when_a_job_may_begin() -> None:
    desk = routed(expires_after_seconds=2, debounce=Debounce(5, by="subject"))
    first, at = event(desk, "e1"), desk.driver.now
    second = event(desk, "e2")
    assert desk.job(second).expires_at == at + 7_000
    desk.driver.advance(6)
    assert statuses(desk, second) == ["pending"]
    desk.driver.advance(2)
    job = desk.job(second)
    assert (job.end_reason, job.event_ids, desk.job(first).superseded_by) == (
        "expired",
        ("evt_e1", "evt_e2"),
        second,
    )
    assert kept(desk) == []


def test_a_submission_for_later_counts_from_then() -> None:
    desk = typed(expires_after_seconds=60)
    desk.submit("job_s", delay_ms=100_000)
    assert desk.job("job_s").expires_at == desk.driver.now + 160_000
    desk.driver.advance(150)
    assert statuses(desk, "job_s") == ["pending"]
    desk.driver.advance(11)
    assert statuses(desk, "job_s") == ["cancelled"]


def test_one_that_waits_behind_another_expires_too() -> None:
    desk = routed(expires_after_seconds=60, singleton=Singleton("queue_one", "subject"))
    at = worker(desk)
    at.heartbeat()
    first, second = event(desk, "e1"), event(desk, "e2")
    at.stay(62, desk.lease(first), free=0)
    assert statuses(desk, first, second) == ["running", "cancelled"]
    third = event(desk, "e3")
    at.end(desk.lease(first), "succeeded", free=9)
    assert statuses(desk, third) == ["running"]


def test_a_replay_has_no_deadline(desk: Desk) -> None:
    at = worker(desk)
    at.heartbeat(free=1)
    job_id = event(desk, "e1")
    at.end(desk.lease(job_id), "failed", error="PermanentError: x", free=0)
    desk.replay("job_r", job_id)
    desk.driver.advance(70)
    assert (statuses(desk, "job_r"), desk.job("job_r").expires_at) == (["pending"], None)


def test_a_deadline_outlives_its_declaration_and_comes_to_no_older_job() -> None:
    desk = routed()
    older = event(desk, "e1")
    deploy(desk, job_types={"draft_reply": JobType("draft_reply", expires_after_seconds=60)})
    job_id = event(desk, "e2")
    deploy(desk, job_types={})
    desk.driver.advance(70)
    assert statuses(desk, older, job_id) == ["pending", "cancelled"]


def test_a_dead_job_that_lives_again_after_its_time_is_cancelled() -> None:
    desk = routed(expires_after_seconds=30 * 3600)
    job_id = event(desk, "e1")
    desk.driver.advance(desk.topology.unhandled_ms / 1000)
    for _ in range(30):
        desk.driver.advance(10)
    assert (statuses(desk, job_id), kept(desk)) == (["dead"], [])
    desk.driver.advance(7 * 3600)
    at = worker(desk)
    at.heartbeat()
    desk.driver.advance(5)
    assert statuses(desk, job_id) == ["cancelled"]
