"""A replay gives an old event one job of its own, whatever is read twice or sent twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.broken_records import BROKEN_EVENT
from support.dispatching import ROUTES, Desk, ScriptedWorker, envelope

from streams.serde.codec import ENVELOPE, JOB
from streams.serde.ids import replayed_event_job_id
from streams.serde.records import Envelope, ReplayEvent


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.start_with()
    return desk


def ask(
    desk: Desk, replayed: Envelope, tenant_id: str = "acme", *, at: int = 0, **fields: Any
) -> str:
    """Send what the carrier of a replay sends; return the id of the job that is asked for."""
    body = ReplayEvent("rpl_1", ENVELOPE.encode(replayed), "reindex", "batch", "index lost", "ops")
    job_id = replayed_event_job_id(tenant_id, "rpl_1", replayed.event_id)
    desk.command(replace(body, **fields), job_id, tenant=tenant_id, at=at)
    return job_id


def test_a_replayed_event_gets_a_job_with_the_events_facts_in_a_scope_of_its_own(
    desk: Desk,
) -> None:
    event = replace(
        envelope("acme", "t1", "ticket.created"), callback_url="https://example.com/done"
    )
    job = desk.job(ask(desk, event))
    assert (job.type, job.priority, job.replay_id) == ("reindex", "batch", "rpl_1")
    assert (job.replay_note, job.submitted_by) == ("index lost", "ops")
    assert job.event is not None
    assert (job.event.event_id, job.event.dedup_key) == (event.event_id, event.dedup_key)
    assert job.payload_ref == event.payload_ref
    assert job.scope.startswith(f"{job.job_id}.")
    assert job.callback_url is None
    assert job.replay_of is None


def test_the_same_event_of_the_same_replay_gets_one_job_also_after_its_end(desk: Desk) -> None:
    event = envelope("acme", "t1", "ticket.created")
    worker = ScriptedWorker(desk, types=("reindex",))
    job_id = ask(desk, event)
    worker.heartbeat()
    worker.end(desk.lease(job_id), "succeeded")
    ended = desk.job(job_id)
    assert ended.status == "succeeded"
    assert ask(desk, event) == job_id
    assert desk.job(job_id) == ended


def test_what_is_read_again_after_its_job_was_purged_makes_no_second_one(desk: Desk) -> None:
    """It would have the scope of the first one, and the ledger no longer knows its effects."""
    event, taken_at = envelope("acme", "t1", "ticket.created"), desk.driver.now
    worker = ScriptedWorker(desk, types=("reindex",))
    worker.heartbeat()
    worker.end(desk.lease(ask(desk, event, at=taken_at)), "succeeded")
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000)
    desk.driver.advance(1)
    assert desk.driver.output("jobs")[-1].value is None
    worker.heartbeat()
    ask(desk, event, at=taken_at)
    assert len(desk.leases()) == 1


def test_an_event_of_another_tenant_or_one_that_cannot_be_read_becomes_a_dead_letter(
    desk: Desk,
) -> None:
    event = envelope("acme", "t1", "ticket.created")
    foreign = ask(desk, event, tenant_id="bolt")
    broken = ask(desk, replace(event, event_id="evt_2"), event=BROKEN_EVENT)
    assert not {foreign, broken} & {JOB.decode(r.value).job_id for r in desk.driver.output("jobs")}
    assert sorted(letter.reason for letter in desk.dead_letters()) == [
        "replay_of_unknown",
        "undecodable",
    ]


def test_a_waiting_job_of_a_replay_keeps_its_type_when_the_routes_change(desk: Desk) -> None:
    """A route may lead to a job with other effects, an e-mail for example."""
    job = desk.job(ask(desk, envelope("acme", "t1", "ticket.created")))
    desk.start_with(*ROUTES)
    assert desk.job(job.job_id) == job


def test_the_replay_of_a_failed_job_of_a_replay_keeps_its_type_too(desk: Desk) -> None:
    desk.start_with(*ROUTES)
    worker = ScriptedWorker(desk, types=("reindex",))
    worker.heartbeat()
    old = ask(desk, envelope("acme", "t1", "ticket.created"))
    for new in ("job_again", "job_once_more"):
        worker.end(desk.lease(old), "failed", error="PermanentError: x")
        desk.replay(new, old)
        job = desk.job(new)
        assert (job.type, job.priority, job.replay_id) == ("reindex", "batch", "rpl_1")
        old = new
