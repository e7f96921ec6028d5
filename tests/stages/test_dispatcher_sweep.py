"""Waiting jobs follow the topology of now, an operator's moves, and no lost timer."""

from __future__ import annotations

import dataclasses

import pytest
from prometheus_client import REGISTRY
from support.dispatching import Desk, ScriptedWorker

from streams.runtime.step import OutputRefused
from streams.serde.codec import COMMAND, JOB
from streams.serde.job_states import WAITING
from streams.serde.records import Wait, Wake
from streams.topology.model import JobType, Route

MENDED = (Route("zendesk", "ticket.*", "triage", "interactive"),)


@pytest.fixture
def desk() -> Desk:
    """With two pools."""
    desk = Desk()
    desk.deploy(pools=("default", "gpu"))
    desk.driver.advance(0.2)
    return desk


def lost_timers() -> float:
    return REGISTRY.get_sample_value("tidegate_dispatcher_lost_timers_total") or 0


def test_a_job_whose_timer_was_lost_is_found_and_the_late_timer_is_stale(desk: Desk) -> None:
    before, due = lost_timers(), desk.driver.now + 30_000
    desk.submit("job_x", run_at=due)
    desk.driver.run_of("scheduler").pace.due = float("inf")  # it keeps the timer
    desk.driver.advance(80)
    assert desk.job("job_x").status == "scheduled", "it may be a little late"
    desk.driver.advance(310)
    assert (desk.job("job_x").status, lost_timers() - before) == ("pending", 1)
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    worker.end(desk.lease("job_x"), "retry", after=600, error="RetryAfter: later")
    desk.command(Wake(1, 0, due), "job_x")
    desk.command(Wake(1, 1, due), "job_x")
    assert desk.job("job_x").status == "scheduled"


def waiting_outside(desk: Desk, until: int | None) -> None:
    """The dispatcher starts anew, and `jobs` has a job that waits for something outside."""
    desk.submit("job_x")
    desk.cancel("job_x")
    waits = (Wait("sleep", "time", 0, b"", group=0, until=until),)
    job = dataclasses.replace(
        desk.job("job_x"), status=WAITING, cancel_requested=False, waits=waits
    )
    desk.driver.pipe("jobs", b"job_x", JOB.encode(job))
    desk.driver.restart("dispatcher")


def test_a_job_that_waits_outside_is_found_when_it_is_late(desk: Desk) -> None:
    before = lost_timers()
    waiting_outside(desk, desk.driver.now + 30_000)
    desk.driver.advance(400)
    assert (desk.job("job_x").status, lost_timers() - before) == ("pending", 1)


def test_a_job_that_waits_outside_without_a_time_keeps_waiting_and_follows_its_pool(
    desk: Desk,
) -> None:
    before = lost_timers()
    waiting_outside(desk, None)
    desk.deploy(job_types={"draft_reply": JobType("draft_reply", "gpu")})
    desk.driver.advance(400)
    job = desk.job("job_x")
    assert (job.status, job.pool, lost_timers() - before) == ("waiting", "gpu", 0)


def test_a_timer_names_its_time(desk: Desk) -> None:
    desk.submit("job_x", run_at=desk.driver.now + 30_000)
    desk.driver.advance(31)
    assert desk.job("job_x").status == "pending"
    commands = [COMMAND.decode(record.value) for record in desk.driver.output("jobs.commands")]
    wakes = [c.body for c in commands if isinstance(c.body, Wake) and c.job_id == "job_x"]
    assert [wake.due_at for wake in wakes] == [desk.job("job_x").scheduled_at]


def test_a_job_that_has_not_begun_gets_the_type_priority_and_pool_of_now(desk: Desk) -> None:
    waiting = desk.event("t1")
    desk.submit("job_direct", "draft_reply")
    desk.submit("job_later", "draft_reply", run_at=desk.driver.now + 50_000)
    types = {"triage": JobType("triage", "gpu"), "draft_reply": JobType("draft_reply", "gpu")}
    desk.deploy(routes=MENDED, job_types=types)
    desk.driver.advance(1)
    job = desk.job(waiting)
    assert (job.type, job.priority, job.pool) == ("triage", "interactive", "gpu")
    for job_id in ("job_direct", "job_later"):
        assert (desk.job(job_id).type, desk.job(job_id).pool) == ("draft_reply", "gpu")
    ScriptedWorker(desk, types=("triage", "draft_reply"), pool="gpu").heartbeat()
    assert {lease.job_id for lease in desk.leases()} == {waiting, "job_direct"}


def test_a_job_that_has_begun_keeps_its_type_and_follows_its_pool(desk: Desk) -> None:
    worker = ScriptedWorker(desk, backoff=(100,))
    worker.heartbeat()
    retried, released = desk.event("t1"), desk.event("t2")
    worker.end(desk.lease(retried), "retry", error="TransientError: x")
    worker.end(desk.lease(released), "released", free=0)
    desk.deploy(routes=MENDED, job_types={"draft_reply": JobType("draft_reply", "gpu")})
    desk.driver.advance(1)
    for job_id in (retried, released):
        assert (desk.job(job_id).type, desk.job(job_id).pool) == ("draft_reply", "gpu")


def test_a_run_that_was_under_way_goes_on_in_the_pool_of_now(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    job_id = desk.event("t1")
    desk.deploy(job_types={"draft_reply": JobType("draft_reply", "gpu")})
    desk.driver.advance(1)
    assert desk.job(job_id).pool == "default"
    worker.end(desk.lease(job_id), "released")
    assert (desk.job(job_id).status, desk.job(job_id).pool) == ("pending", "gpu")


def test_a_replay_keeps_the_type_that_it_was_made_with(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "failed", error="PermanentError: x", free=0)
    desk.replay("job_new", job_id)
    desk.deploy(routes=MENDED)
    desk.driver.advance(1)
    assert desk.job("job_new").type == "draft_reply"


def test_what_the_sweep_has_not_reached_is_not_leased_as_it_was(desk: Desk) -> None:
    """The round over a million jobs takes minutes."""
    with desk.driver.together():
        ids = [desk.event(f"t{n}") for n in range(1_500)]
    types = {"triage": JobType("triage", "gpu")}
    desk.deploy(routes=MENDED, job_types=types)
    worker = ScriptedWorker(desk, slots=10_000)
    desk.driver.advance(0.2)
    worker.heartbeat()
    assert desk.leases() == []
    desk.driver.advance(3)
    assert {desk.job(job_id).type for job_id in ids} == {"triage"}


def test_a_round_is_made_in_parts_and_costs_nothing_when_it_is_done(desk: Desk) -> None:
    with desk.driver.together():
        for n in range(450):
            desk.event(f"t{n}")
    desk.deploy(job_types={"draft_reply": JobType("draft_reply", "gpu")})
    parts, before = [], len(desk.driver.output("jobs"))
    for _ in range(10):
        desk.driver.advance(0.1)
        parts.append(len(desk.driver.output("jobs")) - before)
        before += parts[-1]
    assert [part for part in parts if part] == [200, 200, 50]
    desk.deploy()
    desk.driver.advance(1)
    assert len(desk.driver.output("jobs")) == before


@pytest.mark.parametrize("meanwhile", ["a part of the round", "a new job"])
def test_a_routing_that_returns_before_the_round_is_over_makes_a_round_too(
    desk: Desk, meanwhile: str
) -> None:
    """A deployment is taken back at once."""
    with desk.driver.together():
        ids = [desk.event(f"t{n}") for n in range(300)]
    former = desk.topology.routes
    desk.deploy(routes=MENDED)
    if meanwhile == "a new job":
        ids.append(desk.event("t300"))
    else:
        desk.driver.advance(0.1)
    types = [desk.job(job_id).type for job_id in ids]
    assert 0 < types.count("triage") < len(ids)
    desk.deploy(routes=former)
    desk.driver.advance(1)
    assert {desk.job(job_id).type for job_id in ids} == {"draft_reply"}


def test_an_aborted_part_is_gone_over_again(desk: Desk) -> None:
    ids = [desk.event(f"t{n}") for n in range(3)]
    desk.deploy(job_types={"draft_reply": JobType("draft_reply", "gpu")})
    desk.driver.crash("dispatcher", "before_commit")
    desk.driver.advance(1)
    assert {desk.job(job_id).pool for job_id in ids} == {"gpu"}


def test_a_part_that_the_broker_refuses_is_gone_over_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [desk.event(f"t{n}") for n in range(3)]

    def refuse(topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        raise OutputRefused(topic)

    desk.deploy(job_types={"draft_reply": JobType("draft_reply", "gpu")})
    with monkeypatch.context() as patched:
        patched.setattr(desk.driver._broker, "check", refuse)
        desk.driver.advance(1)
    assert {desk.job(job_id).pool for job_id in ids} == {"default"}
    desk.driver.advance(1)
    assert {desk.job(job_id).pool for job_id in ids} == {"gpu"}


def test_a_move_is_kept_for_as_long_as_its_pool_is_declared(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    running = desk.event("t1")
    worker.heartbeat(desk.lease(running), free=0)
    waiting = desk.event("t2")
    desk.submit("job_later", run_at=desk.driver.now + 50_000)
    for job_id in (running, waiting, "job_later"):
        desk.move(job_id, "gpu")
    assert [desk.job(j).pool for j in (running, waiting, "job_later")] == ["default", "gpu", "gpu"]
    worker.end(desk.lease(running), "released", free=0)
    assert desk.job(running).pool == "gpu"
    ScriptedWorker(desk, "g1/b1", pool="gpu").heartbeat()
    assert desk.taker(waiting) == "g1/b1"
    desk.deploy(pools=("default",))
    desk.driver.advance(1)
    assert (desk.job("job_later").pool, desk.job("job_later").asked_pool) == ("default", "gpu")


def test_a_move_of_nothing_or_to_nowhere_is_a_dead_letter_of_an_ended_job_nothing(
    desk: Desk,
) -> None:
    job_id, other = desk.event("t1"), desk.event("t1", "globex")
    desk.move("job_gone", "gpu")
    desk.move(other, "gpu")
    desk.move(job_id, "tpu")
    reasons = [letter.reason for letter in desk.dead_letters()]
    assert reasons == ["move_of_unknown", "move_of_unknown", "pool_undeclared"]
    desk.cancel(job_id)
    ended = desk.job(job_id)
    desk.move(job_id, "gpu")
    assert desk.job(job_id) == ended
    assert dataclasses.replace(desk.job(other), asked_pool=None).pool == "default"
