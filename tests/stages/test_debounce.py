"""Debounce: of the events of a window the newest one runs, and its job names all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from support.dispatching import Desk, envelope
from support.event_cancels import count
from support.flow_control import (
    ROUTE,
    deploy,
    event,
    kept,
    leased,
    routed,
    statuses,
    taken,
    typed,
    worker,
)

from streams.runtime.memory_broker import CrashPoint
from streams.serde.codec import ENVELOPE
from streams.serde.ids import event_job_id
from streams.serde.records import ReplayEvent, Wake
from streams.topology.flow_control import Debounce
from streams.topology.model import Cancels, Route

FIVE = Debounce(5, 12, "subject")


@pytest.fixture
def desk() -> Desk:
    return routed(debounce=FIVE)


def test_the_newest_event_runs_and_its_job_names_every_event(desk: Desk) -> None:
    at = worker(desk)
    at.heartbeat()
    first = event(desk, "e1")
    desk.driver.advance(3)
    second = event(desk, "e2")
    assert taken(desk, first) == [second]
    desk.driver.advance(4)
    assert leased(desk) == []
    desk.driver.advance(2)
    assert leased(desk) == [second]
    job = desk.job(second)
    assert (job.event_ids, job.event_count) == (("evt_e1", "evt_e2"), 2)
    assert job.superseded_by is None
    assert kept(desk) == []


def test_a_single_event_waits_and_its_job_is_as_any(desk: Desk) -> None:
    worker(desk).heartbeat()
    job_id, at = event(desk, "e1"), desk.driver.now
    assert (desk.job(job_id).status, desk.job(job_id).scheduled_at) == ("scheduled", at + 5_000)
    desk.driver.advance(6)
    assert leased(desk) == [job_id]
    assert (desk.job(job_id).event_ids, desk.job(job_id).event_count) == ((), 0)


def test_a_steady_stream_is_put_off_to_the_limit_and_no_longer(desk: Desk) -> None:
    worker(desk).heartbeat()
    began, ids = desk.driver.now, list[str]()
    while not leased(desk):
        ids.append(event(desk, f"e{len(ids)}"))
        desk.driver.advance(2)
    assert 12_000 <= desk.driver.now - began <= 14_500
    (runs,) = leased(desk)
    before = ids[: ids.index(runs)]
    assert desk.job(runs).event_ids == tuple(f"evt_e{n}" for n in range(len(before) + 1))
    assert taken(desk, *before) == ids[1 : len(before) + 1]


def test_others_are_left_alone(desk: Desk) -> None:
    ids = [
        event(desk, "e1"),
        event(desk, "e2", "t2"),
        event(desk, "e3", tenant="globex"),
    ]
    assert statuses(desk, *ids) == ["scheduled"] * 3


def test_without_by_all_events_of_the_tenant_and_type_are_one_window() -> None:
    desk = routed(debounce=Debounce(5))
    first, second = event(desk, "e1"), event(desk, "e2", "t2")
    theirs = event(desk, "e3", tenant="globex")
    assert taken(desk, first) == [second]
    assert statuses(desk, second, theirs) == ["scheduled"] * 2


def test_events_are_compared_by_an_attribute_and_without_it_they_are_left_alone() -> None:
    desk = routed(debounce=Debounce(5, by="attributes.order"))
    before = count("flow_without_value", type="draft_reply")
    one, two = event(desk, "e1", order="7"), event(desk, "e2", "t2", order="7")
    alone, too = event(desk, "e3"), event(desk, "e4", order="")
    assert taken(desk, one) == [two]
    assert statuses(desk, two, alone, too) == ["scheduled", "pending", "pending"]
    assert count("flow_without_value", type="draft_reply") - before == 2


def test_what_comes_once_its_time_is_over_joins_and_puts_nothing_off(desk: Desk) -> None:
    """No worker has a slot: what waits in the queue is still one run."""
    first = event(desk, "e1")
    desk.driver.advance(6)
    ready_at = desk.job(first).ready_at
    assert statuses(desk, first) == ["pending"]
    second = event(desk, "e2")
    assert taken(desk, first) == [second]
    assert (desk.job(second).status, desk.job(second).ready_at) == ("pending", ready_at)
    worker(desk).heartbeat()
    assert leased(desk) == [second]
    assert desk.job(second).event_ids == ("evt_e1", "evt_e2")


def test_what_comes_after_the_run_began_begins_a_window_of_its_own(desk: Desk) -> None:
    at = worker(desk, attempts=3, backoff=(1,))
    at.heartbeat()
    first = event(desk, "e1")
    desk.driver.advance(6)
    second = event(desk, "e2")
    assert statuses(desk, first, second) == ["running", "scheduled"]
    at.end(desk.lease(first), "retry", error="TransientError: x", free=0)
    third = event(desk, "e3")
    assert statuses(desk, first) == ["scheduled"], "a job that began is not superseded"
    assert taken(desk, second) == [third]
    assert desk.job(first).event_ids == ()


@pytest.mark.parametrize("is_first", [True, False])
def test_an_event_and_the_timer_in_one_batch_make_one_run(desk: Desk, is_first: bool) -> None:
    worker(desk).heartbeat()
    first = event(desk, "e1")
    due = desk.job(first).scheduled_at or 0
    with desk.held_back():
        if is_first:
            second = event(desk, "e2")
        desk.command(Wake(1, 0, due), first)
        if not is_first:
            second = event(desk, "e2")
    desk.driver.advance(10)
    assert leased(desk) == [second]
    assert taken(desk, first) == [second]


def test_an_event_that_came_before_takes_no_newer_ones_place(desk: Desk) -> None:
    at = desk.driver.now
    desk.driver.advance(3)
    newest = event(desk, "e2")
    late = event(desk, "e1", at=at)
    assert taken(desk, late) == [newest]
    worker(desk).heartbeat()
    desk.driver.advance(6)
    assert desk.job(newest).event_ids == ("evt_e1", "evt_e2")


def test_a_redelivery_and_an_event_that_is_read_again_change_nothing(desk: Desk) -> None:
    at = desk.driver.now
    first, second = event(desk, "e1"), event(desk, "e2")
    due = desk.job(second).scheduled_at
    desk.driver.advance(1)
    desk.again("e1")
    event(desk, "e1", at=at)
    event(desk, "e2", at=at)
    assert taken(desk, first) == [second]
    assert (desk.job(second).status, desk.job(second).scheduled_at) == ("scheduled", due)
    worker(desk).heartbeat()
    desk.driver.advance(6)
    assert (leased(desk), desk.job(second).event_count) == ([second], 2)


def test_a_cancel_ends_the_window_and_its_job_still_names_the_events(desk: Desk) -> None:
    first, second = event(desk, "e1"), event(desk, "e2")
    desk.cancel(second)
    job = desk.job(second)
    assert (job.status, job.event_ids, job.superseded_by) == (
        "cancelled",
        ("evt_e1", "evt_e2"),
        None,
    )
    assert kept(desk) == []
    third = event(desk, "e3")
    assert (statuses(desk, third), taken(desk, first)) == (["scheduled"], [second])


def test_a_cancel_that_overtook_its_event_leaves_the_window_as_it_is(desk: Desk) -> None:
    first = event(desk, "e1")
    desk.cancel(event_job_id("acme", "zendesk", "e2"), at=desk.driver.now + 1)
    second = event(desk, "e2")
    assert statuses(desk, first, second) == ["scheduled", "cancelled"]
    assert desk.job(second).superseded_by is None


def test_an_event_that_cancels_ends_the_window_before_it_begins_another() -> None:
    desk = routed(debounce=FIVE, cancels=Cancels("draft_reply", "subject"))
    first, second = event(desk, "e1"), event(desk, "e2")
    assert statuses(desk, first, second) == ["cancelled", "scheduled"]
    assert (desk.job(first).last_error or "").startswith("Cancelled: event ticket.created evt_e2")
    worker(desk).heartbeat()
    desk.driver.advance(6)
    assert desk.job(second).event_ids == ()


@pytest.mark.parametrize(
    "point",
    ["received", "positions_sent", "produced", "before_commit", "after_commit", "after_write"],
)
@pytest.mark.parametrize("keep_state", [True, False])
def test_a_window_outlives_a_crash_at_every_point(desk: Desk, point: str, keep_state: bool) -> None:
    worker(desk).heartbeat()
    ids = []
    for n in range(5):
        desk.driver.crash("dispatcher", cast(CrashPoint, point))
        ids.append(event(desk, f"e{n}"))
        desk.driver.advance(2.9)
        desk.driver.restart("dispatcher", keep_state=keep_state)
        worker(desk).heartbeat()
    desk.driver.advance(10)
    windows = [
        desk.job(job_id).event_ids or (f"evt_e{ids.index(job_id)}",) for job_id in leased(desk)
    ]
    assert sorted(event_id for window in windows for event_id in window) == [
        f"evt_e{n}" for n in range(5)
    ]
    assert kept(desk) == []


def test_what_an_abort_takes_back_is_done_again(desk: Desk) -> None:
    first = event(desk, "e1")
    with desk.held_back():
        second = event(desk, "e2")
        desk.abort()
    worker(desk).heartbeat()
    desk.driver.advance(6)
    assert (leased(desk), taken(desk, first)) == ([second], [second])
    assert desk.job(second).event_ids == ("evt_e1", "evt_e2")


def test_the_events_of_a_disabled_tenant_wait_as_one_run(desk: Desk) -> None:
    worker(desk).heartbeat()
    desk.tenant(disabled=True)
    for n in range(4):
        newest = event(desk, f"e{n}")
        desk.driver.advance(8)
    assert leased(desk) == []
    desk.tenant()
    worker(desk).heartbeat()
    assert leased(desk) == [newest]
    assert desk.job(newest).event_count == 4


def test_an_erased_tenant_leaves_nothing(desk: Desk) -> None:
    event(desk, "e1", tenant="globex")
    newest = event(desk, "e2", tenant="globex")
    desk.tenant("globex", kind="erasure", disabled=True)
    desk.driver.advance(1)
    assert (statuses(desk, newest), kept(desk)) == (["cancelled"], [])
    after = event(desk, "e3", tenant="globex")
    assert (statuses(desk, after), kept(desk)) == (["cancelled"], [])


def test_a_route_that_debounces_no_more_loses_nothing(desk: Desk) -> None:
    first, second = event(desk, "e1"), event(desk, "e2")
    deploy(desk, routes=(ROUTE,))
    third = event(desk, "e3")
    worker(desk).heartbeat()
    assert leased(desk) == [third]
    desk.driver.advance(6)
    assert leased(desk) == [third, second]
    assert (desk.job(second).event_ids, taken(desk, first)) == (("evt_e1", "evt_e2"), [second])
    assert kept(desk) == []


def test_a_route_that_begins_to_debounce_leaves_waiting_jobs_alone() -> None:
    desk = routed()
    first = event(desk, "e1")
    deploy(desk, routes=(Route("zendesk", "ticket.*", "draft_reply", "webhook", debounce=FIVE),))
    second = event(desk, "e2")
    assert statuses(desk, first, second) == ["pending", "scheduled"]


def test_a_window_whose_route_now_gives_another_type_runs_as_that_type(desk: Desk) -> None:
    first, second = event(desk, "e1"), event(desk, "e2")
    deploy(desk, routes=(Route("zendesk", "ticket.*", "refund", "webhook", debounce=FIVE),))
    worker(desk).heartbeat()
    desk.driver.advance(6)
    assert (leased(desk), desk.job(second).type) == ([second], "refund")
    assert (desk.job(second).event_ids, taken(desk, first)) == (("evt_e1", "evt_e2"), [second])


def test_an_event_that_meets_its_route_late_is_debounced_too() -> None:
    desk = routed()
    deploy(desk, routes=())
    late = event(desk, "e1")
    deploy(desk, routes=(Route("zendesk", "ticket.*", "draft_reply", "webhook", debounce=FIVE),))
    newest = event(desk, "e2")
    desk.again("e1")
    assert taken(desk, late) == [newest]


def test_a_replay_of_an_event_runs_by_itself(desk: Desk) -> None:
    first, second = event(desk, "e1"), event(desk, "e2")
    body = ReplayEvent(
        "rpl_1",
        ENVELOPE.encode(envelope("acme", "e1", "ticket.created")),
        "draft_reply",
        "webhook",
        "only this one",
    )
    desk.command(body, "job_r")
    assert statuses(desk, first, second, "job_r") == ["cancelled", "scheduled", "pending"]
    desk.replay("job_s", first)
    assert [letter.reason for letter in desk.dead_letters()] == ["not_replayable"]


def test_a_replay_of_the_job_keeps_the_events_that_it_names(desk: Desk) -> None:
    at = worker(desk)
    at.heartbeat()
    event(desk, "e1")
    second = event(desk, "e2")
    desk.driver.advance(6)
    at.end(desk.lease(second), "failed", error="PermanentError: x", free=0)
    desk.replay("job_r", second)
    assert statuses(desk, "job_r") == ["pending"]
    assert desk.job("job_r").event_ids == ("evt_e1", "evt_e2")


def test_submissions_of_a_type_are_compared_by_their_input() -> None:
    desk = typed(debounce=Debounce(5, by="input.customer.id"))
    for n, customer in enumerate(("7", "7", '"7"', "null")):
        desk.submit(f"job_{n}", input=f'{{"customer":{{"id":{customer}}}}}')
    desk.submit("job_later", input='{"customer":{"id":7}}', delay_ms=60_000)
    assert taken(desk, "job_0") == ["job_1"]
    assert statuses(desk, "job_1", "job_2", "job_3", "job_later") == [
        "scheduled",
        "scheduled",
        "pending",
        "scheduled",
    ]
    worker(desk).heartbeat()
    desk.driver.advance(6)
    job = desk.job("job_1")
    assert (job.status, job.event_ids, job.event_count) == ("running", (), 2)


def test_a_window_names_a_thousand_events_and_counts_the_others(desk: Desk) -> None:
    with desk.held_back():
        ids = [event(desk, f"e{n}") for n in range(1_203)]
    assert len(kept(desk, (b"Q",))) <= 20, "a step may begin many such windows"
    worker(desk).heartbeat()
    desk.driver.advance(6)
    job = desk.job(ids[-1])
    assert (job.event_count, len(job.event_ids)) == (1_203, 1_000)
    assert {"evt_e0", "evt_e998", "evt_e1202"} <= set(job.event_ids)
    assert kept(desk) == []


def test_a_lost_timer_is_found_by_the_sweep(desk: Desk) -> None:
    worker(desk).heartbeat()
    event(desk, "e1")
    second = event(desk, "e2")
    _lose_timers(desk)
    for _ in range(40):
        desk.driver.advance(10)
        worker(desk).heartbeat()
    assert set(leased(desk)) == {second}


def test_timers_of_superseded_jobs_are_forgotten(desk: Desk) -> None:
    with desk.held_back():
        for n in range(50):
            event(desk, f"e{n}")
    timers = desk.driver.store("scheduler", "timers")
    assert len([key for key, _ in timers.range(b"t", b"u")]) == 1


def test_nothing_is_left_however_many_values_were_seen(desk: Desk) -> None:
    at = worker(desk, slots=500)
    at.heartbeat()
    with desk.held_back():
        for n in range(400):
            event(desk, f"e{n}", f"t{n % 100}")
    desk.driver.advance(8)
    assert len(leased(desk)) == 100
    assert kept(desk) == []


def _lose_timers(desk: Desk) -> None:
    """The scheduler's state and what waits in its input are gone."""
    run, records = desk.driver.run_of("scheduler"), desk.driver._broker.records
    run.wipe()
    records["scheduler.timers.changelog", 0].clear()
    run.offsets["schedule", 0] = len(records["schedule", 0])
    run.start()


def test_a_dead_job_that_lives_again_under_a_new_window_runs_when_that_is_over() -> None:
    """Its timer, and not the sweep a minute later, wakes it."""
    desk = routed()
    desk.deploy(unhandled_ms=60_000)
    other = worker(desk, types=("refund",))
    job_id, at = event(desk, "e1"), desk.driver.now
    for _ in range(50):
        other.heartbeat()
        desk.driver.advance(5)
    assert statuses(desk, job_id) == ["dead"]
    deploy(desk, routes=(replace(ROUTE, debounce=Debounce(600, by="subject")),))
    late = worker(desk, name="w2/b1")
    late.heartbeat()
    desk.driver.advance(3)
    assert (statuses(desk, job_id), desk.job(job_id).scheduled_at) == (["scheduled"], at + 600_000)
    while desk.driver.now < at + 601_000:
        late.heartbeat()
        desk.driver.advance(1)
    assert leased(desk) == [job_id]
