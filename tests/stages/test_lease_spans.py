"""Spans of leases: one trace, in which retries, losses and replays are linked."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from support.dispatching import Desk, ScriptedWorker, envelope
from support.recorded_spans import SAMPLED, UNSAMPLED, context, linked, parent_id, recording

from streams.serde.codec import ENVELOPE
from streams.serde.ids import event_job_id
from streams.serde.records import ReplayEvent
from streams.tracing import carried

LEASE = "send link"


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    return worker


def event(desk: Desk, key: str = "t1", trace: str | None = SAMPLED) -> str:
    """An event that carries a trace; returns its job."""
    headers = [("traceparent", trace.encode())] if trace else []
    value = ENVELOPE.encode(envelope("acme", key, "ticket.created"))
    desk.driver.pipe("events", b"acme", value, headers=headers)
    return event_job_id("acme", "zendesk", key)


def ids(spans: list[ReadableSpan]) -> list[int]:
    return [context(span).span_id for span in spans]


def test_a_lease_is_recorded_and_its_run_belongs_to_it(desk: Desk, worker: ScriptedWorker) -> None:
    with recording() as found:
        lease = desk.lease(event(desk))
    span = found.only(LEASE)
    assert parent_id(span) == int("b" * 16, 16)
    assert lease.traceparent == carried.with_span(SAMPLED, context(span).span_id)
    assert desk.job(lease.job_id).traceparent == SAMPLED, "a job keeps what its event carried"
    attributes = dict(span.attributes or {})
    assert attributes["tidegate.job.id"] == lease.job_id
    assert attributes["tidegate.run.id"] == lease.run_id
    assert attributes["messaging.destination.partition.id"] == "0"
    assert attributes["messaging.system"] == "tidegate", "no record of Kafka carries it"


@pytest.mark.parametrize("trace", [None, UNSAMPLED, "00-ab-cd-01"])
def test_a_job_whose_trace_is_not_sampled_keeps_it_and_has_no_span(
    desk: Desk, worker: ScriptedWorker, trace: str | None
) -> None:
    with recording() as found:
        assert desk.lease(event(desk, trace=trace)).traceparent == trace
    assert found.all == []


def test_while_traces_are_off_a_lease_carries_its_jobs_trace(
    desk: Desk, worker: ScriptedWorker
) -> None:
    assert desk.lease(event(desk)).traceparent == SAMPLED


def test_each_lease_is_linked_to_the_one_before(desk: Desk, worker: ScriptedWorker) -> None:
    with recording() as found:
        first = desk.lease(event(desk))
        worker.end(first, "retry", error="busy")
        worker.stay(15)
        lost = desk.lease(first.job_id)
        worker.heartbeat(lost)
        successor = ScriptedWorker(desk, "w1/b2")
        successor.heartbeat()
        successor.stay(31)
    leases = found.named(LEASE)
    one, two, three = ids(leases)
    assert [linked(span) for span in leases] == [
        [],
        [(one, "attempt_before")],
        [(two, "attempt_before")],
    ]
    ended = [(span.attributes or {}).get("tidegate.job.last_run") for span in leases]
    assert ended == [None, "failed", "lost"]
    assert len({one, two, three}) == 3


def test_a_replay_is_linked_to_the_last_lease_of_what_it_replays(
    desk: Desk, worker: ScriptedWorker
) -> None:
    with recording() as found:
        old = desk.lease(event(desk))
        worker.end(old, "failed", error="no")
        desk.replay("job_new", old.job_id)
        worker.heartbeat()
    first, replay = found.named(LEASE)
    assert linked(replay) == [(context(first).span_id, "replay_of")]
    assert context(replay).trace_id == context(first).trace_id


def test_the_replay_of_an_event_is_linked_to_the_events_own_job(
    desk: Desk, worker: ScriptedWorker
) -> None:
    value = ENVELOPE.encode(envelope("acme", "t1", "ticket.created"))
    body = ReplayEvent("rpl_1", value, "draft_reply", "webhook", "again", "ops", SAMPLED)
    with recording() as found:
        worker.end(desk.lease(event(desk)), "succeeded")
        worker.heartbeat()
        desk.command(body, "job_replayed")
    first, replay = found.named(LEASE)
    assert linked(replay) == [(context(first).span_id, "replay_of")]


def test_a_purged_job_is_not_linked_to(desk: Desk, worker: ScriptedWorker) -> None:
    value = ENVELOPE.encode(envelope("acme", "gone", "ticket.created"))
    body = ReplayEvent("rpl_1", value, "draft_reply", "webhook", "again", "ops", SAMPLED)
    with recording() as found:
        desk.command(body, "job_replayed")
    assert linked(found.only(LEASE)) == []


def test_a_new_incarnation_is_a_story_of_its_own(desk: Desk, worker: ScriptedWorker) -> None:
    with recording() as found:
        first = desk.lease(event(desk))
        worker.end(first, "succeeded")
        desk.driver.advance(desk.topology.window_ms / 1000 + 1)
        worker.heartbeat()
        second = desk.lease(event(desk))
    assert second.incarnation == 2
    assert [linked(span) for span in found.named(LEASE)] == [[], []]
    assert len(set(ids(found.named(LEASE)))) == 2


@pytest.mark.parametrize("point", ["before_commit", "produced"])
def test_an_aborted_lease_is_recorded_only_when_it_is_made_again(
    desk: Desk, worker: ScriptedWorker, point: str
) -> None:
    with recording() as found:
        desk.driver.crash("dispatcher", point)  # type: ignore[arg-type]
        job_id = event(desk)
        worker.heartbeat()
        worker.stay(5)
    leases = [lease for lease in desk.leases() if lease.job_id == job_id]
    assert len(found.named(LEASE)) == len(leases) == 1
    assert leases[0].traceparent is not None
