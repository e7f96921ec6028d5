"""Singleton: of several jobs with one value, one is kept."""

from __future__ import annotations

from typing import Any, cast

import pytest
from support.dispatching import Desk, ScriptedWorker
from support.flow_control import ROUTE, deploy, event, kept, leased, routed, statuses, taken, worker

from streams.runtime.memory_broker import CrashPoint
from streams.topology.flow_control import Singleton
from streams.topology.model import Cancels, JobType


def keeping(keep: Any, by: str | None = "subject") -> tuple[Desk, ScriptedWorker]:
    desk = routed(singleton=Singleton(keep, by))
    return desk, worker(desk)


def test_newest_keeps_the_newest_job_that_waits_at_the_place_of_the_first() -> None:
    desk, at = keeping("newest")
    first = event(desk, "e1")
    ready_at = desk.job(first).ready_at
    desk.driver.advance(3)
    second, other = event(desk, "e2"), event(desk, "e3", "t2")
    assert taken(desk, first) == [second]
    assert (statuses(desk, second, other), desk.job(second).ready_at) == (["pending"] * 2, ready_at)
    at.heartbeat()
    assert desk.job(second).event_ids == ("evt_e1", "evt_e2")
    assert kept(desk) == []


def test_newest_lets_a_run_go_on_and_the_next_begin_beside_it() -> None:
    desk, at = keeping("newest")
    at.heartbeat()
    first, second = event(desk, "e1"), event(desk, "e2")
    assert statuses(desk, first, second) == ["running", "running"]
    assert desk.job(first).cancel_requested is False


def test_first_keeps_the_job_that_waits_or_runs_until_it_ends() -> None:
    desk, at = keeping("first")
    first, second = event(desk, "e1"), event(desk, "e2")
    assert taken(desk, second) == [first]
    at.heartbeat()
    third = event(desk, "e3")
    at.end(desk.lease(first), "retry", error="TransientError: x", free=9)
    fourth = event(desk, "e4")
    assert taken(desk, third, fourth) == [first, first]
    assert desk.job(first).event_ids == ("evt_e1", "evt_e2"), "these came before it began"
    desk.driver.advance(20)
    at.end(desk.lease(first), "succeeded", free=9)
    at.heartbeat(free=9)
    fifth = event(desk, "e5")
    assert statuses(desk, first, fifth) == ["succeeded", "running"]
    at.end(desk.lease(fifth), "succeeded", free=9)
    assert kept(desk) == []


def test_first_counts_a_job_that_waits_for_a_person() -> None:
    desk, at = keeping("first")
    at.heartbeat()
    first = event(desk, "e1")
    at.claim(desk.lease(first))
    at.end(desk.lease(first), "retry", error="TimeoutError: x", after=0, free=9)
    assert at.claim(desk.lease(first)).kind == "review"
    at.end(desk.lease(first), "review", error="unknown", free=9)
    second = event(desk, "e2")
    assert (statuses(desk, first), taken(desk, second)) == (["needs_review"], [first])
    desk.cancel(first)
    assert statuses(desk, event(desk, "e3")) == ["running"]


def test_queue_one_runs_one_and_lets_the_newest_wait() -> None:
    desk, at = keeping("queue_one")
    at.heartbeat()
    first, second = event(desk, "e1"), event(desk, "e2")
    third, other = event(desk, "e3"), event(desk, "e4", "t2")
    assert statuses(desk, first, third, other) == ["running", "scheduled", "running"]
    assert taken(desk, second) == [third]
    assert (desk.job(third).queued_behind, desk.job(third).scheduled_at) == (first, None)
    at.end(desk.lease(first), "succeeded", free=9)
    assert statuses(desk, third) == ["running"]
    assert desk.job(third).queued_behind is None
    assert desk.job(third).event_ids == ("evt_e2", "evt_e3")
    at.end(desk.lease(third), "failed", error="PermanentError: x", free=9)
    at.end(desk.lease(other), "succeeded", free=9)
    assert kept(desk) == []


def test_queue_one_supersedes_what_has_not_begun() -> None:
    desk, at = keeping("queue_one")
    first, second = event(desk, "e1"), event(desk, "e2")
    assert taken(desk, first) == [second]
    at.heartbeat()
    assert leased(desk) == [second]


def test_queue_one_waits_through_retries_and_losses() -> None:
    desk, at = keeping("queue_one")
    at.heartbeat()
    first, second = event(desk, "e1"), event(desk, "e2")
    at.end(desk.lease(first), "retry", error="TransientError: x", free=9)
    at.stay(15)
    assert (desk.job(first).attempts, statuses(desk, second)) == (2, ["scheduled"])
    desk.driver.advance(60)
    assert statuses(desk, first, second) == ["pending", "scheduled"]
    at.stay(15)
    assert statuses(desk, first) == ["running"]
    at.end(desk.lease(first), "succeeded", free=9)
    assert statuses(desk, second) == ["running"]


@pytest.mark.parametrize("how", ["cancel", "erase", "dead"])
def test_queue_one_goes_on_however_the_one_before_ends(how: str) -> None:
    desk, at = keeping("queue_one")
    at.heartbeat()
    first, second = event(desk, "e1"), event(desk, "e2")
    if how == "cancel":
        desk.cancel(first)
        at.end(desk.lease(first), "cancelled", free=9)
    elif how == "dead":
        for _ in range(3):
            at.end(desk.lease(first), "retry", error="TransientError: x", after=0, free=9)
    else:
        desk.tenant(kind="erasure", disabled=True)
        desk.driver.advance(1)
        at.end(desk.lease(first), "cancelled", free=9)
    wanted = {"cancel": "running", "dead": "running", "erase": "cancelled"}
    assert statuses(desk, second) == [wanted[how]]
    if how == "erase":
        assert kept(desk) == []


def test_the_one_that_waits_may_be_cancelled_and_the_next_waits_in_its_place() -> None:
    desk, at = keeping("queue_one")
    at.heartbeat()
    first, second = event(desk, "e1"), event(desk, "e2")
    desk.cancel(second)
    third = event(desk, "e3")
    assert statuses(desk, second, third) == ["cancelled", "scheduled"]
    at.end(desk.lease(first), "succeeded", free=9)
    assert statuses(desk, third) == ["running"]


@pytest.mark.parametrize(
    "point",
    ["received", "positions_sent", "produced", "before_commit", "after_commit", "after_write"],
)
def test_a_crash_at_any_point_wedges_nothing(point: str) -> None:
    desk, at = keeping("queue_one")
    at.heartbeat()
    first = event(desk, "e1")
    desk.driver.crash("dispatcher", cast(CrashPoint, point))
    second = event(desk, "e2")
    desk.driver.crash("dispatcher", cast(CrashPoint, point))
    at.end(desk.lease(first), "succeeded", free=9)
    desk.driver.restart("dispatcher")
    desk.driver.advance(1)
    at.heartbeat(free=9)
    desk.driver.advance(1)
    assert statuses(desk, first, second) == ["succeeded", "running"]


def test_a_topology_without_singletons_still_lets_the_waiting_one_go_on() -> None:
    desk, at = keeping("queue_one")
    at.heartbeat()
    first, second = event(desk, "e1"), event(desk, "e2")
    deploy(desk, routes=(ROUTE,))
    at.heartbeat(desk.lease(first), free=9)
    third = event(desk, "e3")
    assert statuses(desk, second, third) == ["scheduled", "running"]
    at.end(desk.lease(first), "succeeded", free=9)
    assert statuses(desk, second) == ["running"]
    at.end(desk.lease(second), "succeeded", free=9)
    assert kept(desk) == []


def test_submissions_and_events_of_a_type_without_by_are_one_group() -> None:
    desk = routed()
    deploy(desk, job_types={"draft_reply": JobType("draft_reply", singleton=Singleton("first"))})
    first = event(desk, "e1")
    desk.submit("job_s")
    assert taken(desk, "job_s") == [first]


def test_a_route_goes_before_its_type() -> None:
    desk = routed(singleton=Singleton("newest", "subject"))
    deploy(desk, job_types={"draft_reply": JobType("draft_reply", singleton=Singleton("first"))})
    first, second = event(desk, "e1"), event(desk, "e2")
    assert taken(desk, first) == [second]


def test_a_type_that_is_handled_again_keeps_one_of_its_jobs() -> None:
    desk, at = keeping("first")
    first = event(desk, "e1")
    desk.driver.advance(desk.topology.unhandled_ms / 1000)
    for _ in range(30):
        desk.driver.advance(10)
    assert (statuses(desk, first), kept(desk)) == (["dead"], [])
    second = event(desk, "e2")
    at.slots = 0
    at.heartbeat()
    desk.driver.advance(5)
    assert (statuses(desk, second), taken(desk, first)) == (["pending"], [second])


def test_a_job_whose_awaited_one_is_gone_goes_on_with_the_sweep() -> None:
    """Nothing known leaves one behind; a wedge would last for ever."""
    desk, at = keeping("queue_one")
    at.heartbeat()
    event(desk, "e1")
    second = event(desk, "e2")
    store = desk.driver.task("dispatcher").ctx.store("parts")
    for key in kept(desk):
        store.delete(key)
    at.end(desk.lease(leased(desk)[0]), "succeeded", free=9)
    assert statuses(desk, second) == ["scheduled"]
    for _ in range(70):
        desk.driver.advance(5)
        at.heartbeat(free=9)
    assert statuses(desk, second) != ["scheduled"]


@pytest.mark.parametrize("keep", ["first", "queue_one"])
def test_an_event_that_cancels_a_run_waits_for_its_end_and_is_not_lost(keep: Any) -> None:
    cancels = Cancels("draft_reply", "subject")
    desk = routed(singleton=Singleton(keep, "subject"), cancels=cancels)
    at = worker(desk)
    at.heartbeat()
    first, second = event(desk, "e1"), event(desk, "e2")
    assert (desk.job(first).cancel_requested, statuses(desk, second)) == (True, ["scheduled"])
    assert desk.job(second).queued_behind == first
    at.end(desk.lease(first), "cancelled", free=9)
    assert statuses(desk, first, second) == ["cancelled", "running"]
