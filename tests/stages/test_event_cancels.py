"""Cancel by event: an event ends the jobs that were made of earlier events of its subject."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from prometheus_client import REGISTRY
from support.derived import derived, processor, rebuilt
from support.dispatching import Desk, ScriptedWorker, envelope

from streams.runtime.memory_broker import CrashPoint
from streams.runtime.task import Task
from streams.serde.codec import ENVELOPE, JOB
from streams.serde.ids import event_job_id, fingerprint
from streams.serde.job_states import WAITING
from streams.serde.keys import after
from streams.serde.records import ReplayEvent, Reroute
from streams.topology.model import Cancels, Route

BY_SUBJECT = Cancels("follow_up", "subject")
CREATED = Route("zendesk", "ticket.created", "follow_up", "webhook")
SOLVED = Route("zendesk", "ticket.solved", None, "webhook", BY_SUBJECT)
UPDATED = Route("zendesk", "ticket.updated", "follow_up", "webhook", BY_SUBJECT)
ROUTES = (CREATED, SOLVED, UPDATED, Route("zendesk", "*", "draft_reply", "webhook"))
KEPT = (b"I", b"J", b"C")


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    deploy(desk, *ROUTES)
    return desk


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk, types=("follow_up", "draft_reply"))


def deploy(desk: Desk, *routes: Route) -> None:
    """The dispatcher starts anew with these routes, and makes its round."""
    desk.deploy(routes=routes)
    desk.driver.advance(1)


def event(
    desk: Desk,
    key: str,
    type_: str = "ticket.created",
    subject: str | None = "t1",
    *,
    tenant: str = "acme",
    at: int = 0,
    routed: bool = True,
    **attributes: str,
) -> str:
    """An event of a subject; returns the id of the job that it may have."""
    made = replace(
        envelope(tenant, key, type_), subject=subject, attributes=attributes, routed=routed
    )
    value = ENVELOPE.encode(made)
    desk.driver.pipe("events", tenant.encode(), value, timestamp=at or None)
    return event_job_id(tenant, "zendesk", key)


def kept(desk: Desk) -> list[bytes]:
    """The keys in the store that belong to cancels by events."""
    store = desk.driver.store("dispatcher", "parts")
    return [key for prefix in KEPT for key, _ in store.range(prefix, after(prefix))]


def statuses(desk: Desk, *ids: str) -> list[str]:
    return [desk.job(job_id).status for job_id in ids]


def made(desk: Desk, job_id: str) -> bool:
    return any(record.key == job_id.encode() for record in desk.driver.output("jobs"))


def count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"tidegate_dispatcher_{name}_total", labels) or 0


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


def test_a_running_job_is_asked_to_stop_once_and_its_end_decides(
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
    worker.end(desk.lease(faster), "succeeded")
    assert statuses(desk, stopped, faster) == ["cancelled", "succeeded"]
    assert (desk.job(stopped).last_error or "").startswith("Cancelled: event ticket.solved evt_")


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


def flood(desk: Desk, jobs: int = 450) -> list[str]:
    with desk.held_back():
        return [event(desk, f"e{number}") for number in range(jobs)]


def cancelled(desk: Desk) -> int:
    newest = {record.key: record.value for record in desk.driver.output("jobs")}
    return sum(JOB.decode(value).status == "cancelled" for value in newest.values() if value)


def test_an_event_that_concerns_many_jobs_ends_them_in_parts(desk: Desk) -> None:
    flood(desk)
    event(desk, "s1", "ticket.solved")
    parts = [cancelled(desk)]
    desk.driver.advance(0.1)
    parts.append(cancelled(desk))
    with desk.held_back():
        later = [event(desk, f"l{number}") for number in range(30)]
    desk.driver.advance(0.1)
    parts.append(cancelled(desk))
    assert parts == [200, 400, 450]
    assert set(statuses(desk, *later)) == {"pending"}
    assert [key for key in kept(desk) if key.startswith(b"C")] == []
    assert len(kept(desk)) == 60


def test_no_job_of_the_rest_begins(desk: Desk, worker: ScriptedWorker) -> None:
    ids = flood(desk)
    worker.slots = 1_000
    with desk.held_back():
        worker.heartbeat()
        event(desk, "s1", "ticket.solved")
        later = event(desk, "l1")
    desk.driver.advance(2)
    assert [lease.job_id for lease in desk.leases()] == [later]
    assert set(statuses(desk, *ids)) == {"cancelled"}


def test_many_running_jobs_are_asked_in_parts_each_once(desk: Desk, worker: ScriptedWorker) -> None:
    ids = flood(desk)
    worker.slots = 1_000
    worker.heartbeat()
    assert len(desk.leases()) == 450
    event(desk, "s1", "ticket.solved")
    desk.driver.advance(1)
    asked = [reply.job_id for reply in desk.replies() if reply.kind == "cancel"]
    assert sorted(asked) == sorted(ids)
    assert [key for key in kept(desk) if key.startswith(b"C")] == []


def test_the_rest_is_ended_although_its_route_makes_jobs_of_another_type_now(desk: Desk) -> None:
    flood(desk)
    event(desk, "s1", "ticket.solved")
    deploy(desk, replace(CREATED, job="triage"), SOLVED)
    desk.driver.advance(1)
    assert (cancelled(desk), kept(desk)) == (450, [])


def test_many_events_at_once_share_the_room_of_a_step_and_each_ends_a_few(desk: Desk) -> None:
    with desk.held_back():
        for subject in range(150):
            for number in range(6):
                event(desk, f"e{subject}.{number}", subject=f"t{subject}")
    with desk.held_back():
        for subject in range(150):
            event(desk, f"s{subject}", "ticket.solved", subject=f"t{subject}")
    assert 600 <= cancelled(desk) <= 700
    desk.driver.advance(1)
    assert (cancelled(desk), kept(desk)) == (900, [])


@pytest.mark.parametrize("point", ["before_commit", "after_commit", "after_write"])
def test_a_crash_while_the_event_is_read_loses_and_repeats_nothing(
    desk: Desk, point: CrashPoint
) -> None:
    ids = flood(desk)
    desk.driver.crash("dispatcher", point)
    event(desk, "s1", "ticket.solved")
    later = event(desk, "l1")
    desk.driver.advance(2)
    assert set(statuses(desk, *ids)) == {"cancelled"}
    assert statuses(desk, later) == ["pending"]
    assert len(kept(desk)) == 2


@pytest.mark.parametrize("point", ["before_commit", "after_commit", "after_write"])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_crash_between_two_parts_goes_on(desk: Desk, point: CrashPoint, keeps: bool) -> None:
    ids = flood(desk)
    event(desk, "s1", "ticket.solved")
    later = event(desk, "l1")
    desk.driver.crash("dispatcher", point)
    desk.driver.advance(0.1)
    desk.driver.restart("dispatcher", keep_state=keeps)
    desk.driver.advance(2)
    assert set(statuses(desk, *ids)) == {"cancelled"}
    assert statuses(desk, later) == ["pending"]
    ends = [JOB.decode(r.value) for r in desk.driver.output("jobs") if r.value]
    assert sum(job.status == "cancelled" for job in ends) == len(ids), "each once"
    assert len(kept(desk)) == 2


def test_an_undone_step_leaves_nothing_behind(desk: Desk) -> None:
    flood(desk)
    flow, desk.driver._flow = desk.driver._flow, lambda: None  # type: ignore[method-assign]
    event(desk, "s1", "ticket.solved")
    task = cast(Task, desk.driver.run_of("dispatcher").tasks[0])
    before = derived(processor(task))
    desk.abort()
    assert derived(processor(task)) == before == rebuilt(task)
    desk.driver._flow = flow  # type: ignore[method-assign]
    desk.driver._flow()
    for _ in range(4):
        desk.abort()
        assert derived(processor(task)) == rebuilt(task)
        desk.driver.advance(0.1)
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


def test_an_event_that_is_read_again_later_ends_nothing_that_came_later(desk: Desk) -> None:
    """So it is with a dead letter that is sent in once more."""
    first, solved_at = event(desk, "e1"), desk.driver.now
    desk.driver.advance(5)
    later = event(desk, "e2")
    event(desk, "e3", "ticket.solved", at=solved_at)
    assert statuses(desk, first, later) == ["cancelled", "pending"]


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


def reroute(desk: Desk, key: str) -> None:
    desk.command(Reroute(fingerprint("acme", "zendesk", key), "it was ours", "ops"))


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
