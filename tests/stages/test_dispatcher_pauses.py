"""A paused tenant, type, pool or source: nothing of it starts, and what runs goes on."""

from __future__ import annotations

import json

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.dispatcher.workers.roster import Roster
from streams.runtime.link import Rights
from streams.serde.records import Handler, Lease
from streams.topology.limits import Limit
from streams.topology.model import LeasePolicy

PAUSES = [
    ("tenant", "acme"),
    ("job_type", "draft_reply"),
    ("pool", "default"),
    ("source", "zendesk"),
]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk)


def statuses(desk: Desk, *job_ids: str) -> list[str]:
    return [desk.job(job_id).status for job_id in job_ids]


@pytest.mark.parametrize(("scope", "value"), PAUSES)
def test_nothing_of_it_starts_and_what_runs_goes_on(
    desk: Desk, worker: ScriptedWorker, scope: str, value: str
) -> None:
    worker.heartbeat()
    running = desk.event("t1")
    desk.stop(scope, value)
    waiting, later = desk.event("t2"), desk.event("t3")
    worker.stay(30, desk.lease(running))
    assert statuses(desk, running, waiting, later) == ["running", "pending", "pending"]
    worker.end(desk.lease(running), "retry", after=0, error="TransientError: x")
    assert statuses(desk, running, waiting, later) == ["pending"] * 3
    desk.stop(scope, value, resume=True)
    desk.driver.advance(0.2)
    assert statuses(desk, running, waiting, later) == ["running"] * 3


@pytest.mark.parametrize(
    ("scope", "value"),
    [
        ("tenant", "globex"),
        ("job_type", "refund"),
        ("pool", "slow"),
        ("source", "shop"),
    ],
)
def test_what_is_not_of_it_starts(
    desk: Desk, worker: ScriptedWorker, scope: str, value: str
) -> None:
    desk.stop(scope, value)
    worker.heartbeat()
    assert statuses(desk, desk.event("t1")) == ["running"]


def test_a_paused_source_hides_no_job_behind_its_own(desk: Desk, worker: ScriptedWorker) -> None:
    desk.stop("source", "zendesk")
    with desk.held_back():
        events = [desk.event(f"t{number}") for number in range(300)]
        desk.submit("submitted")
    worker.heartbeat()
    desk.driver.advance(2)
    assert statuses(desk, "submitted") == ["running"]
    assert set(statuses(desk, *events)) == {"pending"}
    desk.stop("source", "zendesk", resume=True)
    desk.driver.advance(0.2)
    assert statuses(desk, *events).count("running") == 9


@pytest.mark.parametrize("keep_state", [True, False])
@pytest.mark.parametrize(("scope", "value"), PAUSES)
def test_a_restart_forgets_no_pause(
    desk: Desk, worker: ScriptedWorker, scope: str, value: str, keep_state: bool
) -> None:
    desk.stop(scope, value)
    desk.driver.restart("dispatcher", keep_state=keep_state)
    desk.driver.advance(0.2)
    worker.heartbeat()
    waiting = desk.event("t1")
    worker.stay(5)
    assert statuses(desk, waiting) == ["pending"]
    desk.driver.restart("dispatcher", keep_state=keep_state)
    desk.driver.advance(0.2)
    worker.heartbeat()
    assert statuses(desk, waiting) == ["pending"]
    desk.stop(scope, value, resume=True)
    desk.driver.advance(0.2)
    assert statuses(desk, waiting) == ["running"]


@pytest.mark.parametrize(("scope", "value"), PAUSES)
def test_an_undone_pause_holds_up_nothing(
    desk: Desk, worker: ScriptedWorker, scope: str, value: str
) -> None:
    worker.heartbeat()
    with desk.held_back():
        desk.stop(scope, value)
        desk.replay("job_new", "job_gone")
        desk.stop(scope, value, resume=True)
    assert statuses(desk, desk.event("t1")) == ["running"]


def test_a_scheduled_job_waits_when_its_time_has_come(desk: Desk, worker: ScriptedWorker) -> None:
    desk.stop("job_type", "draft_reply")
    desk.submit("later", run_at=desk.driver.now + 1_000)
    worker.heartbeat()
    worker.stay(5)
    assert statuses(desk, "later") == ["pending"]


def test_a_pause_and_a_limit_hold_the_same_job(desk: Desk) -> None:
    limit = Limit("of_zendesk", "source", "zendesk", concurrency=1)
    desk.deploy(limits=(limit,))
    desk.driver.advance(0.5)
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    first = desk.event("t1")
    desk.stop("source", "zendesk")
    second, third = desk.event("t2"), desk.event("t3")
    worker.end(desk.lease(first), "succeeded")
    desk.driver.advance(1)
    assert statuses(desk, second, third) == ["pending", "pending"]
    desk.stop("source", "zendesk", resume=True)
    desk.driver.advance(0.5)
    assert sorted(statuses(desk, second, third)) == ["pending", "running"]
    running = next(id_ for id_ in (second, third) if desk.job(id_).status == "running")
    worker.end(desk.lease(running), "succeeded")
    assert sorted(statuses(desk, second, third)) == ["running", "succeeded"]


def test_a_paused_job_stays_paused_under_another_topology(
    desk: Desk, worker: ScriptedWorker
) -> None:
    desk.stop("source", "zendesk")
    worker.heartbeat()
    waiting = desk.event("t1")
    limit = Limit("each", "key", by="event.subject", concurrency=1)
    desk.deploy(limits=(limit,))
    desk.driver.advance(2)
    ScriptedWorker(desk).heartbeat()
    desk.driver.advance(2)
    job = desk.job(waiting)
    assert job.status == "pending"
    assert [key.limit for key in job.limit_keys] == ["each", "/source"]


def test_a_record_that_pauses_nothing_known_is_passed_over(
    desk: Desk, worker: ScriptedWorker
) -> None:
    for id_ in ("0/colour/red", "", "0/tenant/acme", "0/pool"):
        desk.tenant("", "pause")
        desk.driver.pipe("tenants", b"\0pause\0" + id_.encode(), b"x")
    worker.heartbeat()
    assert statuses(desk, desk.event("t1")) == ["running"]
    assert desk.dead_letters() == []


def test_a_paused_pool_says_that_no_more_workers_would_help(desk: Desk) -> None:
    worker = ScriptedWorker(desk, slots=1)
    worker.heartbeat()
    desk.stop("pool", "default")
    desk.event("t1")
    worker.stay(30)
    assert desk.held() == {}


def test_a_paused_tool_is_not_called_and_the_job_waits_without_an_attempt(desk: Desk) -> None:
    worker = ScriptedWorker(desk, backoff=(0,), attempts=9)
    worker.heartbeat()
    first, second = (desk.lease(desk.event(key)) for key in ("t1", "t2"))
    under_way = worker.claim(first)
    desk.stop("tool", "email:send")
    refused = worker.claim(second)
    assert (under_way.kind, refused.kind) == ("granted", "full")
    assert refused.message == "tool 'email:send' is paused"
    worker.end(second, "full", result='["email:send",null]', error=refused.message)
    worker.stay(60, first)
    job = desk.job(second.job_id)
    assert (job.status, job.attempts) == ("pending", 0)
    worker.outcome(first, under_way, "done", "1")
    desk.stop("tool", "shop:buy")
    assert statuses(desk, second.job_id) == ["pending"]
    desk.stop("tool", "email:send", resume=True)
    desk.driver.advance(0.5)
    assert worker.claim(desk.lease(second.job_id)).kind == "granted"
    assert len(desk.job(second.job_id).limit_keys) <= 1


def has_to_wait(worker: ScriptedWorker, lease: Lease, action: str = "email:send/reply") -> None:
    """A run asks for a call that it does not get, and ends."""
    refused = worker.claim(lease, action)
    assert refused.kind == "full"
    asked = json.dumps([action.partition("/")[0], None])
    worker.end(lease, "full", result=asked, error=refused.message)


def test_a_tool_that_is_paused_again_is_not_called_by_a_job_that_waited_before(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    first = desk.lease(desk.event("t1"))
    desk.stop("tool", "email:send")
    has_to_wait(worker, first)
    desk.stop("tool", "email:send", resume=True)
    desk.driver.advance(0.5)
    again = desk.lease(first.job_id)
    desk.stop("tool", "email:send")
    assert again.epoch == first.epoch + 1
    assert worker.claim(again).kind == "full"


def test_a_job_that_has_called_a_paused_tool_is_not_held_up_by_it_at_another_tool() -> None:
    desk = Desk(Limit("notes", "tool", "crm:*", concurrency=1, shared=False))
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    first, other = (desk.lease(desk.event(key)) for key in ("t1", "t2"))
    note = worker.claim(other, "crm:note/a")
    desk.stop("tool", "email:send")
    has_to_wait(worker, first)
    desk.stop("tool", "email:send", resume=True)
    desk.driver.advance(0.5)
    again = desk.lease(first.job_id)
    worker.outcome(again, worker.claim(again), "done")
    has_to_wait(worker, again, "crm:note/a")
    desk.stop("tool", "email:send")
    worker.outcome(other, note, "done", action="crm:note/a")
    desk.driver.advance(0.5)
    assert statuses(desk, first.job_id) == ["running"]


def test_no_place_is_kept_for_a_job_whose_source_is_paused() -> None:
    desk = Desk(Limit("each", "key", by="event.subject || input.customer", concurrency=1))
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    desk.stop("source", "zendesk")
    paused = desk.event("t1", subject="ann")
    desk.submit("first", input='{"customer": "ann"}')
    worker.stay(15)
    desk.driver.restart("dispatcher", keep_state=True)
    desk.driver.advance(0.5)
    running = desk.lease("first")
    worker.stay(1, running)
    worker.end(running, "succeeded")
    worker.stay(1)
    desk.submit("second", input='{"customer": "ann"}')
    worker.stay(1)
    assert statuses(desk, paused, "second") == ["pending", "running"]


def test_no_place_is_kept_for_a_job_whose_type_is_paused() -> None:
    sides = (Limit(each, "key", by=f"input.{each}", concurrency=1) for each in ("left", "right"))
    desk = Desk(*sides)
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    desk.submit("left", input='{"left": 1, "right": 8}')
    desk.submit("right", input='{"left": 9, "right": 1}')
    desk.submit("both", "refund", input='{"left": 1, "right": 1}')
    worker.stay(1)
    worker.end(desk.lease("left"), "succeeded")
    desk.stop("job_type", "refund")
    worker.stay(15, desk.lease("right"))
    desk.submit("other", input='{"left": 1, "right": 7}')
    worker.stay(1, desk.lease("right"))
    assert statuses(desk, "both", "other") == ["pending", "running"]


def test_a_drained_worker_gets_no_new_lease_and_ends_what_it_runs(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    running = desk.event("t1")
    desk.stop("worker", "w1")
    waiting = desk.event("t2")
    worker.stay(30, desk.lease(running))
    assert statuses(desk, running, waiting) == ["running", "pending"]
    worker.end(desk.lease(running), "succeeded")
    worker.heartbeat()
    assert statuses(desk, running, waiting) == ["succeeded", "pending"]
    ScriptedWorker(desk, "w2/b1").heartbeat()
    assert desk.taker(waiting) == "w2/b1"


@pytest.mark.parametrize("keep_state", [True, False])
def test_a_drain_outlives_the_owner_and_the_workers_process_until_it_is_resumed(
    desk: Desk, worker: ScriptedWorker, keep_state: bool
) -> None:
    worker.heartbeat()
    desk.stop("worker", "w1")
    desk.driver.restart("dispatcher", keep_state=keep_state)
    again = ScriptedWorker(desk, "w1/b2")
    again.heartbeat()
    desk.driver.advance(1)
    waiting = desk.event("t1")
    assert statuses(desk, waiting) == ["pending"]
    desk.stop("worker", "w1", resume=True)
    desk.driver.advance(0.2)
    assert desk.taker(waiting) == "w1/b2"


def test_a_drain_whose_step_is_taken_back_is_read_again(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    with desk.held_back():
        desk.stop("worker", "w1")
        desk.abort()
        roster = desk.driver.run_of("dispatcher").stage.link
        assert isinstance(roster, Roster)
        assert [each.drained for each in roster] == [False]
    assert statuses(desk, desk.event("t1")) == ["pending"]


def test_a_partition_that_moves_away_drains_nothing_any_more() -> None:
    """Its next owner does, and this process has perhaps no other partition that says so."""
    roster = Roster(LeasePolicy())
    roster.connected("w1/b1", "default", [Handler("mail", 3, (10,), 300)], Rights())
    roster.heard("w1/b1", 1, 5, False, 0.0)
    roster.drain(0, "w1", True)
    roster.drain(1, "w1", True)
    roster.drain(0, "w1", False)
    assert roster.freest("default", 0, "mail", "acme") is None
    roster.leave(1)
    assert roster.freest("default", 0, "mail", "acme") is not None
