"""Batch: one job for several events, which has all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from support.dispatching import Desk
from support.flow_control import ROUTE, deploy, event, kept, leased, routed, statuses, taken, worker

from streams.dispatcher import superseding
from streams.dispatcher.parts import event_cancels
from streams.runtime.link import LINK
from streams.runtime.memory_broker import CrashPoint
from streams.serde.sizes import MAX_JOB_BYTES
from streams.topology.flow_control import Batch
from streams.topology.model import Cancels, Route
from streams.topology.policies import Policy

THREE = Batch(3, 5, "subject")


@pytest.fixture
def desk() -> Desk:
    return routed(batch=THREE)


def names(desk: Desk, job_id: str) -> list[str]:
    return [each.event.event_id for each in desk.job(job_id).events]


def test_a_batch_begins_at_its_time_with_what_it_has(desk: Desk) -> None:
    worker(desk).heartbeat()
    first, second = event(desk, "e1"), event(desk, "e2")
    other = event(desk, "e3", "t2")
    assert (statuses(desk, first, other), taken(desk, second)) == (["scheduled"] * 2, [first])
    desk.driver.advance(6)
    assert sorted(leased(desk)) == sorted([first, other])
    lease = desk.lease(first)
    assert [each.event.event_id for each in lease.events] == ["evt_e1", "evt_e2"]
    assert {each.payload_ref for each in lease.events} == {desk.job(first).payload_ref}
    assert desk.job(first).event_count == 2
    assert (desk.lease(other).events, desk.job(other).event_count) == ((), 0)
    assert kept(desk) == []


def test_a_full_batch_begins_at_once_and_the_next_event_begins_another(desk: Desk) -> None:
    worker(desk).heartbeat()
    ids = [event(desk, f"e{n}") for n in range(7)]
    assert leased(desk) == [ids[0], ids[3]]
    assert names(desk, ids[3]) == ["evt_e3", "evt_e4", "evt_e5"]
    assert statuses(desk, ids[6]) == ["scheduled"]
    assert taken(desk, ids[1], ids[2], ids[4], ids[5]) == [ids[0], ids[0], ids[3], ids[3]]


def test_a_full_batch_that_waits_takes_no_more(desk: Desk) -> None:
    ids = [event(desk, f"e{n}") for n in range(4)]
    assert statuses(desk, ids[0], ids[3]) == ["pending", "scheduled"]
    desk.driver.advance(6)
    last = event(desk, "e4")
    assert taken(desk, last) == [ids[3]], "its time is over, but it has room and has not begun"
    worker(desk).heartbeat()
    assert (names(desk, ids[0]), names(desk, ids[3])) == (
        ["evt_e0", "evt_e1", "evt_e2"],
        ["evt_e3", "evt_e4"],
    )


def test_a_batch_that_would_not_fit_its_record_begins_early(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(superseding, "MAX_BATCH_BYTES", 3_000)
    ids = [event(desk, f"e{n}", text="x" * 700) for n in range(3)]
    assert statuses(desk, ids[0], ids[2]) == ["pending", "scheduled"]
    assert taken(desk, ids[1]) == [ids[0]]


def test_the_largest_batch_fits_its_job_and_its_lease() -> None:
    desk = routed(batch=Batch(500, 5, "subject"))
    worker(desk).heartbeat()
    with desk.held_back():
        ids = [event(desk, f"e{n}", text="x" * 1_500) for n in range(500)]
    desk.driver.advance(6)
    seen = [each for job_id in leased(desk) for each in names(desk, job_id)]
    assert sorted(seen) == sorted(f"evt_e{n}" for n in range(500))
    sizes = [len(r.value or b"") for r in desk.driver.output(LINK)]
    assert max(sizes) < MAX_JOB_BYTES / 2
    assert desk.dead_letters() == []
    assert "dead" not in statuses(desk, *ids)


def test_a_batch_fails_and_is_replayed_with_all_its_events(desk: Desk) -> None:
    at = worker(desk)
    at.heartbeat()
    ids = [event(desk, f"e{n}") for n in range(3)]
    at.end(desk.lease(ids[0]), "retry", error="TransientError: x", after=0, free=9)
    assert len(desk.lease(ids[0]).events) == 3
    at.end(desk.lease(ids[0]), "failed", error="PermanentError: x", free=9)
    desk.replay("job_r", ids[0])
    assert [each.event.event_id for each in desk.lease("job_r").events] == [
        "evt_e0",
        "evt_e1",
        "evt_e2",
    ]


def test_a_cancelled_batch_still_names_its_events(desk: Desk) -> None:
    first, second = event(desk, "e1"), event(desk, "e2")
    desk.cancel(first)
    assert (names(desk, first), kept(desk)) == (["evt_e1", "evt_e2"], [])
    third = event(desk, "e3")
    assert (statuses(desk, third), taken(desk, second)) == (["scheduled"], [first])


def test_a_batch_without_a_worker_is_dead_and_lives_again_with_its_events(desk: Desk) -> None:
    at = worker(desk)
    first, _ = event(desk, "e1"), event(desk, "e2")
    desk.driver.advance(desk.topology.unhandled_ms / 1000 + 10)
    for _ in range(30):
        desk.driver.advance(10)
    assert statuses(desk, first) == ["dead"]
    later = event(desk, "e3")
    at.heartbeat()
    desk.driver.advance(5)
    assert statuses(desk, first) == ["running"]
    assert [each.event.event_id for each in desk.lease(first).events] == ["evt_e1", "evt_e2"]
    assert statuses(desk, later) != ["cancelled"]


def test_a_draft_among_its_events_makes_the_batch_one() -> None:
    desk = routed()
    drafts = Route("zendesk", "ticket.refund", "draft_reply", "webhook", draft=True, batch=THREE)
    deploy(desk, routes=(drafts, replace(ROUTE, batch=THREE)))
    first = event(desk, "e1")
    assert desk.job(first).draft is False
    second = event(desk, "e2", type_="ticket.refund")
    assert (taken(desk, second), desk.job(first).draft) == ([first], True)


def test_a_batch_has_the_events_of_one_source_because_policies_judge_it_by_that() -> None:
    no_forms = Policy("no-forms", "deny", principal="source:form")
    desk = routed()
    deploy(desk, routes=(replace(ROUTE, source="*", batch=THREE),), policies=(no_forms,))
    at = worker(desk)
    at.heartbeat()
    shop, form = event(desk, "e1"), event(desk, "e2", source="form")
    assert statuses(desk, shop, form) == ["scheduled", "scheduled"]
    also = event(desk, "e3", source="form")
    assert taken(desk, also) == [form]
    desk.driver.advance(6)
    assert at.claim(desk.lease(shop)).kind == "granted"
    assert at.claim(desk.lease(form)).kind == "denied"
    assert names(desk, form) == ["evt_e2", "evt_e3"]


def test_submitted_jobs_are_in_no_batch() -> None:
    desk = routed(batch=Batch(3, 5))
    event(desk, "e1")
    desk.submit("job_s")
    assert statuses(desk, "job_s") == ["pending"]


@pytest.mark.parametrize(
    "point",
    ["received", "positions_sent", "produced", "before_commit", "after_commit", "after_write"],
)
def test_no_event_is_lost_and_none_is_in_two_batches_whatever_crashes(
    desk: Desk, point: str
) -> None:
    worker(desk).heartbeat()
    for n in range(8):
        desk.driver.crash("dispatcher", cast(CrashPoint, point))
        event(desk, f"e{n}")
        if n % 3 == 0:
            desk.driver.restart("dispatcher")
            desk.driver.advance(0.5)
            worker(desk).heartbeat()
    desk.driver.advance(10)
    worker(desk).heartbeat()
    desk.driver.advance(1)
    seen = [each for job_id in dict.fromkeys(leased(desk)) for each in names(desk, job_id)]
    assert sorted(seen) == [f"evt_e{n}" for n in range(8)]
    assert kept(desk) == []


def test_an_abort_takes_a_begun_batch_back_with_its_notes(desk: Desk) -> None:
    first, _ = event(desk, "e1"), event(desk, "e2")
    desk.driver.advance(6)
    with desk.held_back():
        worker(desk).heartbeat()
        desk.abort()
    desk.driver.advance(1)
    assert names(desk, first) == ["evt_e1", "evt_e2"]


def test_a_batch_that_is_taken_from_its_topology_keeps_its_events(desk: Desk) -> None:
    first, _ = event(desk, "e1"), event(desk, "e2")
    deploy(desk, routes=(ROUTE,))
    worker(desk).heartbeat()
    third = event(desk, "e3")
    desk.driver.advance(6)
    assert leased(desk) == [third, first]
    assert names(desk, first) == ["evt_e1", "evt_e2"]


def test_no_event_joins_a_batch_whose_time_to_begin_is_over() -> None:
    """The batch expires with what it had, also if nothing has looked at its time yet."""
    desk = routed(batch=Batch(3, 5, "subject"), expires_after_seconds=60)
    first = event(desk, "e1")
    with desk.held_back():
        desk.driver._clock.ms += 66_000  # nothing ticks meanwhile
        second = event(desk, "e2")
    assert (desk.job(first).end_reason, statuses(desk, second)) == ("expired", ["scheduled"])


def test_no_event_joins_a_batch_that_an_earlier_event_is_about_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_cancels, "AT_ONCE", 0)
    monkeypatch.setattr(event_cancels, "_EACH", 0)
    solved = Route("zendesk", "ticket.solved", None, "webhook", Cancels("draft_reply", "subject"))
    desk = routed()
    deploy(desk, routes=(solved, replace(ROUTE, batch=THREE)))
    first = event(desk, "e1")
    event(desk, "e2", type_="ticket.solved")
    assert statuses(desk, first) == ["scheduled"], "the cancel is not finished"
    third = event(desk, "e3")
    assert statuses(desk, first, third) == ["cancelled", "scheduled"]
    assert desk.job(first).superseded_by is None


def test_an_event_joins_no_batch_that_became_another_type() -> None:
    desk = routed(batch=THREE)
    first = event(desk, "e1")
    other = Route("zendesk", "ticket.created", "refund", "webhook")
    deploy(desk, routes=(other, replace(ROUTE, batch=THREE)))
    assert desk.job(first).type == "refund"
    second = event(desk, "e2", type_="ticket.opened")
    assert statuses(desk, second) == ["scheduled"]
    worker(desk).heartbeat()
    desk.driver.advance(6)
    assert sorted(leased(desk)) == sorted([first, second])
    assert kept(desk) == []
