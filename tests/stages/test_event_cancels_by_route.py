"""Cancel by event while routes change, and by events that meet their route late."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from support.derived import derived, processor, rebuilt
from support.dispatching import Desk, ScriptedWorker
from support.event_cancels import (
    CREATED,
    KEPT,
    ROUTES,
    SOLVED,
    TYPES,
    cancelled,
    cancelling,
    deploy,
    event,
    flood,
    kept,
    reroute,
    statuses,
)

from streams.runtime.task import Task
from streams.serde.ids import event_job_id
from streams.serde.keys import after
from streams.topology.model import Cancels


@pytest.fixture
def desk() -> Desk:
    return cancelling()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk, types=TYPES)


def test_without_such_a_route_nothing_is_written(desk: Desk) -> None:
    plain = Desk()
    deploy(plain, CREATED)
    event(plain, "e1")
    event(plain, "e2", "ticket.solved")
    plain.cancel(event_job_id("acme", "zendesk", "e1"))
    store = plain.driver.store("dispatcher", "parts")
    assert [key for p in (*KEPT, b"N") for key, _ in store.range(p, after(p))] == []
    event(desk, "e1", "ticket.opened")
    assert kept(desk) == [], "no route cancels jobs of this type"


def test_the_rest_is_ended_although_its_route_makes_jobs_of_another_type_now(desk: Desk) -> None:
    flood(desk)
    event(desk, "s1", "ticket.solved")
    deploy(desk, replace(CREATED, job="triage"), SOLVED)
    desk.driver.advance(1)
    assert (cancelled(desk), kept(desk)) == (450, [])


def test_an_undone_end_of_a_cancel_leaves_nothing_behind(desk: Desk) -> None:
    """Until the round after a change of routes is over, a cancel is kept."""
    event(desk, "e1")
    desk.deploy(routes=(*ROUTES, replace(CREATED, source="github")))
    event(desk, "s1", "ticket.solved")
    assert [key[:1] for key in kept(desk)] == [b"C"]
    task = cast(Task, desk.driver.run_of("dispatcher").tasks[0])
    for _ in range(4):
        desk.abort()
        assert derived(processor(task)) == rebuilt(task)
        desk.driver.advance(0.1)
    assert kept(desk) == []


def test_a_job_whose_route_only_cancels_now_keeps_its_type(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    failed = event(desk, "e1")
    worker.end(desk.lease(failed), "failed", error="PermanentError: x", free=0)
    waiting = event(desk, "e2")
    deploy(desk, replace(SOLVED, event_type="*"))
    desk.replay("job_r", failed)
    assert [desk.job(job_id).type for job_id in (waiting, "job_r")] == ["follow_up"] * 2


def test_an_event_that_met_its_route_late_ends_what_is_older_and_only_once(desk: Desk) -> None:
    deploy(desk, CREATED)
    older = event(desk, "e1")
    desk.driver.advance(1)
    event(desk, "s1", "ticket.updated", routed=False)
    desk.driver.advance(1)
    newer = event(desk, "e2")
    deploy(desk, *ROUTES)
    assert statuses(desk, older, newer) == ["pending", "pending"], "nobody asked for it yet"
    reroute(desk, "s1")
    own = event_job_id("acme", "zendesk", "s1")
    assert statuses(desk, older, newer, own) == ["cancelled", "pending", "pending"]
    reroute(desk, "s1")
    desk.again("s1")
    assert statuses(desk, newer, own) == ["pending", "pending"]


def test_an_operator_is_told_that_a_route_makes_no_job(desk: Desk) -> None:
    deploy(desk, CREATED)
    event(desk, "s1", "ticket.solved", routed=False)
    deploy(desk, *ROUTES)
    job_id = event(desk, "e1")
    reroute(desk, "s1")
    assert [letter.reason for letter in desk.dead_letters()] == ["cancels_only"]
    desk.again("s1")
    assert statuses(desk, job_id) == ["pending"]


def test_an_ingress_that_had_the_routes_first_loses_no_cancel(desk: Desk) -> None:
    """The kept events get their jobs in any order, and more than one step has room for."""
    deploy(desk)
    keys = [f"e{number}" for number in range(300)]
    for key in keys:
        event(desk, key, subject=key)
    desk.driver.advance(1)
    for key in keys:
        event(desk, f"s{key}", "ticket.solved", subject=key)
    desk.driver.advance(1)
    later = [event(desk, f"l{key}", subject=key) for key in keys[:20]]
    deploy(desk, *ROUTES)
    desk.driver.advance(5)
    assert {*statuses(desk, *(event_job_id("acme", "zendesk", key) for key in keys))} == {
        "cancelled"
    }
    assert {*statuses(desk, *later)} == {"pending"}
    assert [key for key in kept(desk) if key.startswith(b"C")] == []


def test_an_event_ends_jobs_of_kept_events_that_get_theirs_after_it(desk: Desk) -> None:
    deploy(desk)
    keys = [f"e{number}" for number in range(450)]
    for key in keys:
        event(desk, key)
    desk.driver.advance(1)
    desk.deploy(routes=ROUTES)
    with desk.held_back():
        event(desk, "s1", "ticket.solved")
        later = event(desk, "l1")
    desk.driver.advance(5)
    ids = [event_job_id("acme", "zendesk", key) for key in keys]
    assert set(statuses(desk, *ids)) == {"cancelled"}
    assert statuses(desk, later) == ["pending"]
    assert len(kept(desk)) == 2


def test_jobs_from_before_their_type_could_be_cancelled_are_found(desk: Desk) -> None:
    deploy(desk, CREATED)
    ids = flood(desk)
    assert kept(desk) == []
    deploy(desk, *ROUTES)
    event(desk, "s1", "ticket.solved")
    desk.driver.advance(2)
    assert set(statuses(desk, *ids)) == {"cancelled"}
    assert kept(desk) == []


def test_an_event_that_is_read_before_that_round_is_over_misses_none_and_none_begins(
    desk: Desk, worker: ScriptedWorker
) -> None:
    deploy(desk, CREATED)
    ids = flood(desk, 1_300)
    worker.slots = 5_000
    desk.deploy(routes=ROUTES)
    with desk.held_back():
        worker.heartbeat()
        event(desk, "s1", "ticket.solved")
        later = [event(desk, f"l{number}") for number in range(20)]
    desk.driver.restart("dispatcher")
    worker.heartbeat()
    desk.driver.advance(5)
    assert set(statuses(desk, *ids)) == {"cancelled"}
    assert {lease.job_id for lease in desk.leases()} == set(later)
    assert [key for key in kept(desk) if key.startswith(b"C")] == []


def test_entries_follow_changed_routes_and_leave_with_the_last_of_them(desk: Desk) -> None:
    job_id = event(desk, "e1", order="o1")
    by_order = replace(SOLVED, cancels=Cancels("follow_up", "attributes.order"))
    deploy(desk, CREATED, by_order)
    event(desk, "s1", "ticket.solved", subject="t1", order="o2")
    assert statuses(desk, job_id) == ["pending"]
    event(desk, "s2", "ticket.solved", subject="t9", order="o1")
    assert statuses(desk, job_id) == ["cancelled"]
    deploy(desk, *ROUTES)
    event(desk, "e2")
    triage = replace(CREATED, job="triage")
    deploy(desk, triage, SOLVED)
    assert kept(desk) == [], "its job has another type now"
    deploy(desk, triage, replace(SOLVED, cancels=Cancels("triage", "subject")))
    assert len(kept(desk)) == 2
    deploy(desk, CREATED)
    assert kept(desk) == []


def test_a_job_that_ends_while_routes_change_leaves_no_entry(desk: Desk) -> None:
    job_id = event(desk, "e1")
    desk.deploy(routes=(CREATED,))
    desk.cancel(job_id)
    desk.driver.advance(1)
    assert kept(desk) == []


def test_a_cancel_of_the_earlier_routes_is_finished_under_the_present_ones(desk: Desk) -> None:
    ids = flood(desk)
    event(desk, "s1", "ticket.solved")
    later = event(desk, "l1")
    deploy(desk, CREATED)
    desk.driver.advance(3)
    assert set(statuses(desk, *ids)) == {"cancelled"}
    assert (statuses(desk, later), kept(desk)) == (["pending"], [])


def test_a_job_of_the_same_millisecond_that_comes_after_the_routes_changed_is_spared(
    desk: Desk, worker: ScriptedWorker
) -> None:
    """No route cancels its type any more, so nothing but its event tells that it came later."""
    ids = flood(desk)
    event(desk, "s1", "ticket.solved")
    desk.deploy(routes=(CREATED,))
    later = event(desk, "l1")
    worker.heartbeat()
    desk.driver.advance(1)
    assert statuses(desk, later) == ["running"]
    assert (set(statuses(desk, *ids)), kept(desk)) == ({"cancelled"}, [])


def test_routes_that_return_before_their_round_is_over_lose_no_cancel_and_leave_no_entry(
    desk: Desk,
) -> None:
    """A deployment is taken back at once."""
    deploy(desk, CREATED)
    ids = flood(desk, 700)
    desk.deploy(routes=ROUTES)
    event(desk, "s1", "ticket.solved")
    desk.driver.advance(0.1)
    assert 0 < cancelled(desk) < len(ids)
    later = event(desk, "l1")
    desk.deploy(routes=(CREATED,))
    desk.driver.advance(5)
    assert set(statuses(desk, *ids)) == {"cancelled"}
    assert (statuses(desk, later), kept(desk)) == (["pending"], [])
