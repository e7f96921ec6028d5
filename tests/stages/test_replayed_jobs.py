"""A replayed job: what it repeats, what it takes from now, what shows of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.dispatching import ROUTES, Desk, ScriptedWorker
from support.replaying import EFFECT, failed, refusal

from streams.serde.codec import DEAD_LETTER, JOB
from streams.serde.records import Replay
from streams.topology.model import JobType, Route


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    return worker


def test_a_second_replay_has_to_be_asked_for(desk: Desk, worker: ScriptedWorker) -> None:
    old = failed(desk, worker)
    desk.replay("job_one", old.job_id)
    worker.end(desk.lease("job_one"), "succeeded")
    for fresh in (False, True):
        desk.replay("job_two", old.job_id, fresh_scope=fresh)
        assert refusal(desk).reason == "already_replayed"
        assert "job_one" in refusal(desk).detail
    desk.replay("job_one", old.job_id)
    assert len([letter for letter in desk.dead_letters() if letter.kind == "record"]) == 2
    desk.replay("job_two", old.job_id, again=True)
    assert desk.job(old.job_id).replayed_as == "job_two"
    assert desk.lease("job_two").scope == old.scope


@pytest.mark.parametrize("ending", ["done", "unknown", "claimed"])
def test_a_fresh_scope_repeats_no_effect_that_nobody_named(
    desk: Desk, worker: ScriptedWorker, ending: str
) -> None:
    lease = desk.lease(desk.event("t1"))
    reply = worker.claim(lease)
    if ending != "claimed":
        worker.outcome(lease, reply, ending)
    other = worker.claim(lease, "crm:note/1")
    worker.outcome(lease, other, "done", action="crm:note/1")
    worker.end(lease, "failed", error="PermanentError: x")
    desk.replay("job_new", lease.job_id, fresh_scope=True, repeat_effects=("crm:note/1",))
    assert refusal(desk).reason == "effects_done"
    assert f"{EFFECT} ({ending})" in refusal(desk).detail
    assert "crm:note" not in refusal(desk).detail
    assert desk.job(lease.job_id).replayed_as is None, "a refused replay leaves no trace"
    named = ("crm:note/1", EFFECT)
    desk.replay("job_new", lease.job_id, fresh_scope=True, repeat_effects=named)
    assert worker.claim(desk.lease("job_new")).kind == "granted"


def test_effects_that_were_not_done_need_no_name(desk: Desk, worker: ScriptedWorker) -> None:
    lease = desk.lease(desk.event("t1"))
    worker.outcome(lease, worker.claim(lease), "failed")
    worker.end(lease, "failed", error="PermanentError: x")
    desk.replay("job_new", lease.job_id, fresh_scope=True)
    assert desk.lease("job_new").attempt == 1


def test_a_refusal_lists_no_more_than_fits(desk: Desk, worker: ScriptedWorker) -> None:
    lease = desk.lease(desk.event("t1"))
    for number in range(25):
        worker.claim(lease, f"email:send/{number}")
    worker.end(lease, "failed", error="PermanentError: x")
    desk.replay("job_new", lease.job_id, fresh_scope=True)
    assert "and 5 more" in refusal(desk).detail


def test_a_replay_read_again_means_no_later_life_of_its_job(
    desk: Desk, worker: ScriptedWorker
) -> None:
    told_at = desk.driver.now
    desk.driver.advance(60)
    worker.heartbeat()
    old = failed(desk, worker)
    body = Replay(old.job_id, "of an earlier life", False, "ops")
    desk.command(body, "job_new", at=told_at)
    assert refusal(desk).reason == "replay_of_unknown"


def test_a_dead_letter_shows_what_became_of_it(desk: Desk, worker: ScriptedWorker) -> None:
    old = failed(desk, worker)
    (before,) = desk.dead_letters()
    desk.driver.advance(60)
    desk.replay("job_new", old.job_id)
    record = desk.driver.output("dlq")[-1]
    letter = DEAD_LETTER.decode(record.value)
    assert record.key == old.job_id.encode()
    assert (letter.replayed_as, letter.replayed_by, letter.note, letter.replayed_at) == (
        "job_new",
        "ops",
        "vendor mended",
        desk.driver.now,
    )
    assert (letter.id, letter.reason, letter.at) == (before.id, before.reason, before.at)


def test_a_job_in_review_gives_way_to_its_replay_and_says_so(
    desk: Desk, worker: ScriptedWorker
) -> None:
    lease = desk.lease(desk.event("t1"))
    worker.claim(lease)
    worker.end(lease, "retry", after=0, error="TransientError: x")
    run = desk.lease(lease.job_id)
    assert worker.claim(run).kind == "review"
    worker.end(run, "review", error="who knows")
    desk.replay("job_new", lease.job_id)
    old = desk.job(lease.job_id)
    assert (old.status, old.replayed_as) == ("cancelled", "job_new")
    assert desk.dead_letters() == [], "it was no dead letter before either"
    desk.replay("job_two", lease.job_id)
    assert refusal(desk).reason == "already_replayed"


def test_a_replay_takes_the_route_and_the_pool_of_now(desk: Desk, worker: ScriptedWorker) -> None:
    old = failed(desk, worker)
    desk.start_with(
        Route("zendesk", "ticket.*", "refund", "interactive"),
        *ROUTES,
        job_types={"refund": JobType("refund", pool="slow")},
        pools=("default", "slow"),
    )
    desk.replay("job_new", old.job_id)
    job = desk.job("job_new")
    assert (job.type, job.pool, job.priority) == ("refund", "slow", "interactive")
    assert (job.event, job.scope) == (desk.job(old.job_id).event, old.scope)


def test_a_replay_may_name_its_type(desk: Desk, worker: ScriptedWorker) -> None:
    old = failed(desk, worker)
    desk.replay("job_new", old.job_id, type="refund")
    assert desk.lease("job_new").type == "refund"


def test_a_replay_without_a_route_keeps_its_type_in_the_pool_of_now(
    desk: Desk, worker: ScriptedWorker
) -> None:
    desk.submit("job_x", priority="batch")
    worker.end(desk.lease("job_x"), "failed", error="PermanentError: x")
    kept = {"webhook": desk.topology.priorities["webhook"]}
    types = {"draft_reply": JobType("draft_reply", pool="slow")}
    desk.start_with(*ROUTES, job_types=types, pools=("default", "slow"), priorities=kept)
    desk.replay("job_new", "job_x")
    job = desk.job("job_new")
    assert (job.type, job.pool, job.priority) == ("draft_reply", "slow", "webhook")


def test_a_replay_begins_anew_in_all_but_its_work(desk: Desk, worker: ScriptedWorker) -> None:
    desk.submit(
        "job_x", input='{"a":1}', timeout_seconds=7, workflow_id="w", callback_url="https://x"
    )
    worker.end(desk.lease("job_x"), "failed", error="PermanentError: x")
    jobs = desk.driver.store("dispatcher", "jobs")
    worn = replace(desk.job("job_x"), lost=2, lost_alone=1, end_reason="x", asked_pool="default")
    jobs.put(b"job_x", JOB.encode(worn))
    desk.replay("job_new", "job_x")
    new = desk.job("job_new")
    assert (new.input, new.asked_timeout_seconds, new.workflow_id) == ('{"a":1}', 7, "w")
    assert (new.lost, new.lost_alone, new.end_reason, new.asked_pool) == (0, 0, None, None)
    assert desk.lease("job_new").timeout_seconds == 7
    assert (new.event_time, new.request_hash) == (desk.driver.now, None)
