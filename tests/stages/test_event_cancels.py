"""Cancel by event: an event ends the jobs that were made of earlier events of its subject."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from support.asking import Asker
from support.dispatching import ROUTES as EVERY_TICKET
from support.dispatching import Desk, ScriptedWorker, envelope
from support.event_cancels import (
    CREATED,
    SOLVED,
    TYPES,
    cancelling,
    count,
    deploy,
    event,
    kept,
    made,
    statuses,
)

from streams.serde.codec import ENVELOPE, JOB
from streams.serde.ids import event_job_id
from streams.serde.job_states import WAITING
from streams.serde.keys import after
from streams.serde.records import ReplayEvent
from streams.serde.run_ends import ReportedEnd
from streams.topology.model import Cancels, Route


@pytest.fixture
def desk() -> Desk:
    return cancelling()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk, types=TYPES)


def test_an_event_ends_the_waiting_jobs_of_earlier_events_of_its_subject(desk: Desk) -> None:
    first, second = event(desk, "e1"), event(desk, "e2")
    other = event(desk, "e3", subject="t2")
    theirs = event(desk, "e4", tenant="globex")
    of_another_type = event(desk, "e5", "ticket.opened")
    solved = event(desk, "e6", "ticket.solved")
    later = event(desk, "e7")
    assert statuses(desk, first, second) == ["cancelled", "cancelled"]
    assert statuses(desk, other, theirs, of_another_type, later) == ["pending"] * 4
    assert not made(desk, solved)
    told = desk.job(first).last_error or ""
    assert told.startswith("Cancelled: event ticket.solved evt_")


def test_an_event_without_a_job_is_neither_kept_nor_counted_nor_a_dead_letter(desk: Desk) -> None:
    before = count("unrouted_events")
    event(desk, "e1", "ticket.solved")
    desk.driver.advance(desk.topology.window_ms / 1000 + 90_000)
    store = desk.driver.store("dispatcher", "parts")
    assert [key for p in (b"u", b"w") for key, _ in store.range(p, after(p))] == []
    assert (count("unrouted_events") - before, desk.dead_letters(), kept(desk)) == (0, [], [])


def test_an_event_may_cancel_and_have_a_job_of_its_own(desk: Desk) -> None:
    """Each update begins the wait anew."""
    ids = [event(desk, f"e{n}", "ticket.updated") for n in range(3)]
    assert statuses(desk, *ids) == ["cancelled", "cancelled", "pending"]


def test_what_comes_in_one_batch_is_taken_in_its_order(desk: Desk) -> None:
    with desk.held_back():
        before = event(desk, "e1")
        event(desk, "e2", "ticket.solved")
        behind = event(desk, "e3")
    assert statuses(desk, before, behind) == ["cancelled", "pending"]


def test_a_scheduled_job_and_one_in_review_end_at_once(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    retried, reviewed = event(desk, "e1"), event(desk, "e2")
    worker.end(desk.lease(retried), "retry", error="TransientError: x", free=0)
    worker.claim(desk.lease(reviewed))
    worker.end(desk.lease(reviewed), "retry", error="TimeoutError: x", after=0, free=9)
    assert worker.claim(desk.lease(reviewed)).kind == "review"
    worker.end(desk.lease(reviewed), "review", error="unknown", free=0)
    assert statuses(desk, retried, reviewed) == ["scheduled", "needs_review"]
    event(desk, "e3", "ticket.solved")
    assert statuses(desk, retried, reviewed) == ["cancelled", "cancelled"]
    desk.driver.advance(60)
    assert statuses(desk, retried) == ["cancelled"], "its timer is stale"


def test_a_job_that_waits_outside_ends_at_once(desk: Desk) -> None:
    job_id = event(desk, "e1")
    waiting = replace(desk.job(job_id), status=WAITING)
    desk.driver.pipe("jobs", job_id.encode(), JOB.encode(waiting))
    desk.driver.restart("dispatcher")
    event(desk, "e2", "ticket.solved")
    assert statuses(desk, job_id) == ["cancelled"]


def test_a_running_job_is_asked_to_stop_once_and_is_cancelled_when_its_run_ends(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    stopped, faster = event(desk, "e1"), event(desk, "e2")
    event(desk, "e3", "ticket.solved")
    event(desk, "e4", "ticket.solved")
    asked = [reply.job_id for reply in desk.replies() if reply.kind == "cancel"]
    assert sorted(asked) == sorted([stopped, faster])
    assert statuses(desk, stopped, faster) == ["running", "running"]
    worker.end(desk.lease(stopped), "cancelled", error="Cancelled")
    worker.end(desk.lease(faster), "succeeded", result="7")
    assert statuses(desk, stopped, faster) == ["cancelled", "cancelled"]
    assert desk.job(faster).result == "7", "evidence of what the run did"
    assert (desk.job(stopped).last_error or "").startswith("Cancelled: event ticket.solved evt_")


@pytest.mark.parametrize("end", [end for end in get_args(ReportedEnd) if end != "cancelled"])
def test_a_run_that_ends_after_the_event_changes_nothing_whatever_it_reports(
    desk: Desk, worker: ScriptedWorker, end: ReportedEnd
) -> None:
    worker.heartbeat()
    job_id = event(desk, "e1")
    worker.claim(desk.lease(job_id))
    event(desk, "e2", "ticket.solved")
    worker.end(desk.lease(job_id), end, error="PermanentError: x")
    assert statuses(desk, job_id) == ["cancelled"]
    assert (desk.job(job_id).last_error or "").startswith("Cancelled: event ticket.solved evt_")
    assert desk.dead_letters() == []


def test_a_job_that_ended_before_the_event_keeps_its_end(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = event(desk, "e1")
    worker.end(desk.lease(job_id), "succeeded")
    event(desk, "e2", "ticket.solved")
    assert statuses(desk, job_id) == ["succeeded"]


def test_an_outcome_after_the_cancel_is_kept_and_changes_nothing(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    job_id = event(desk, "e1")
    lease = desk.lease(job_id)
    claim = worker.claim(lease)
    event(desk, "e2", "ticket.solved")
    worker.end(lease, "cancelled", error="Cancelled")
    worker.outcome(lease, claim, "done", "1")
    worker.end(lease, "succeeded")
    assert statuses(desk, job_id) == ["cancelled"]
    assert [entry.status for entry in desk.ledger()][-1] == "done"


def test_a_replayed_job_is_ended_by_a_later_event_only(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat(free=1)
    failed = event(desk, "e1")
    worker.end(desk.lease(failed), "failed", error="PermanentError: x", free=0)
    event(desk, "s1", "ticket.solved")
    desk.replay("job_r", failed)
    assert statuses(desk, failed, "job_r") == ["failed", "pending"]
    event(desk, "s2", "ticket.solved")
    assert statuses(desk, failed, "job_r") == ["failed", "cancelled"]


def test_a_job_that_waits_for_an_approval_asks_for_no_decision_any_more() -> None:
    ends = Route("*", "ticket.solved", None, "webhook", Cancels("draft_reply", "subject"))
    at = Asker(ends, *EVERY_TICKET)
    lease, id_ = at.waiting()
    at.desk.event("s", type_="ticket.solved", subject="a")
    at.decide(lease, id_)
    assert (at.status(lease), at.approval().status) == ("cancelled", "cancelled")


def test_an_event_is_compared_by_an_attribute(desk: Desk) -> None:
    by_order = Cancels("follow_up", "attributes.order")
    deploy(desk, CREATED, replace(SOLVED, cancels=by_order))
    ours, other = event(desk, "e1", order="o1"), event(desk, "e2", order="o2")
    without = event(desk, "e3")
    event(desk, "e4", "ticket.solved", subject=None, order="o1")
    assert statuses(desk, ours, other, without) == ["cancelled", "pending", "pending"]


@pytest.mark.parametrize("subject", [None, ""])
def test_an_event_without_a_subject_cancels_nothing_and_is_counted(
    desk: Desk, subject: str | None
) -> None:
    before = count("cancels_without_value")
    job_id = event(desk, "e1", subject=subject)
    event(desk, "e2", "ticket.solved", subject=subject)
    assert (statuses(desk, job_id), count("cancels_without_value") - before) == (["pending"], 1)
    assert kept(desk) == []


def test_a_subject_may_hold_anything(desk: Desk) -> None:
    odd, long = "a\0b", "x" * 5_000
    for number, subject in enumerate((odd, long)):
        job_id = event(desk, f"e{number}", subject=subject)
        event(desk, f"s{number}", "ticket.solved", subject=subject)
        assert statuses(desk, job_id) == ["cancelled"]


def test_a_job_that_ended_leaves_no_entry(desk: Desk, worker: ScriptedWorker) -> None:
    event(desk, "e1")
    assert len(kept(desk)) == 2
    event(desk, "e2", "ticket.solved")
    worker.heartbeat()
    worker.end(desk.lease(event(desk, "e3")), "succeeded")
    assert kept(desk) == []


def test_an_event_that_is_read_again_later_ends_nothing_that_came_later(desk: Desk) -> None:
    """So it is with a dead letter that is sent in once more."""
    first, solved_at = event(desk, "e1"), desk.driver.now
    desk.driver.advance(5)
    later = event(desk, "e2")
    event(desk, "e3", "ticket.solved", at=solved_at)
    assert statuses(desk, first, later) == ["cancelled", "pending"]


def test_an_event_with_a_job_that_is_read_again_ends_nothing_of_its_own_millisecond(
    desk: Desk,
) -> None:
    first, second = (envelope("acme", key, "ticket.updated") for key in ("e1", "e2"))
    at = desk.driver.now
    for each in (first, second, first):
        value = ENVELOPE.encode(replace(each, subject="t1"))
        desk.driver.pipe("events", b"acme", value, timestamp=at)
    ids = [event_job_id("acme", "zendesk", key) for key in ("e1", "e2")]
    assert statuses(desk, *ids) == ["cancelled", "pending"]


def test_a_redelivery_cancels_nothing(desk: Desk) -> None:
    event(desk, "s1", "ticket.solved")
    job_id = event(desk, "e1")
    desk.again("s1")
    assert statuses(desk, job_id) == ["pending"]


def test_an_event_that_comes_anew_past_the_window_spares_its_own_job(desk: Desk) -> None:
    own = event(desk, "e1", "ticket.updated")
    other = event(desk, "e2")
    desk.driver.advance(desk.topology.window_ms / 1000)
    assert event(desk, "e1", "ticket.updated") == own
    assert statuses(desk, own, other) == ["pending", "cancelled"]
    assert desk.job(own).incarnation == 1


def test_a_replay_of_an_event_cancels_nothing_and_is_cancelled_by_what_comes_later(
    desk: Desk,
) -> None:
    job_id = event(desk, "e1")
    solved = replace(envelope("acme", "s0", "ticket.updated"), subject="t1")
    body = ReplayEvent("rpl_1", ENVELOPE.encode(solved), "follow_up", "webhook", "once more")
    desk.command(body, "job_r")
    assert statuses(desk, job_id, "job_r") == ["pending", "pending"]
    event(desk, "s1", "ticket.solved")
    assert statuses(desk, job_id, "job_r") == ["cancelled", "cancelled"]


def test_a_job_that_lives_again_can_be_cancelled_again(desk: Desk, worker: ScriptedWorker) -> None:
    job_id = event(desk, "e1")
    desk.driver.advance(desk.topology.unhandled_ms / 1000)
    for _ in range(30):
        desk.driver.advance(10)
    assert statuses(desk, job_id) == ["dead"]
    assert kept(desk) == []
    worker.slots = 0
    worker.heartbeat()
    desk.driver.advance(5)
    assert statuses(desk, job_id) == ["pending"]
    event(desk, "s1", "ticket.solved")
    assert statuses(desk, job_id) == ["cancelled"]


def test_the_next_incarnation_can_be_cancelled(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    job_id = event(desk, "e1")
    worker.end(desk.lease(job_id), "succeeded", free=0)
    desk.driver.advance(desk.topology.window_ms / 1000)
    assert event(desk, "e1") == job_id
    event(desk, "s1", "ticket.solved")
    assert (desk.job(job_id).incarnation, desk.job(job_id).status) == (2, "cancelled")
    assert kept(desk) == []


def test_a_job_that_a_cancel_overtook_leaves_no_entry(desk: Desk) -> None:
    desk.cancel(event_job_id("acme", "zendesk", "e1"), at=desk.driver.now + 1)
    job_id = event(desk, "e1")
    assert statuses(desk, job_id) == ["cancelled"]
    assert kept(desk) == []


def test_an_erased_tenant_leaves_no_entry(desk: Desk) -> None:
    event(desk, "e1", tenant="globex")
    desk.tenant("globex", kind="erasure", disabled=True)
    desk.driver.advance(1)
    assert kept(desk) == []
