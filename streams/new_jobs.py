"""New jobs: of an event, a submission, a schedule, a replay of a job, and a replay of an event.

The dispatcher makes them. Before it has read a command, the operator shows the job that it will
make. Times are in milliseconds, by the broker's time.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams.errors import LONGEST_WAIT_SECONDS
from streams.event_match import event_info
from streams.serde.ids import new_traceparent, scope_of
from streams.serde.job_states import PENDING, SCHEDULED
from streams.serde.principals import principal_of
from streams.serde.records import (
    ChildSpec,
    Envelope,
    Job,
    Occurrence,
    Parent,
    Replay,
    ReplayEvent,
    ScheduleRow,
    Submit,
)
from streams.serde.replacing import replace
from streams.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Generation:
    """A new job's incarnation, and the epoch of the job of its id before it."""

    incarnation: int
    epoch: int


FIRST = Generation(1, 0)


def from_event(
    job_id: str,
    envelope: Envelope,
    type_: str,
    priority: str,
    topology: Topology,
    *,
    place: Generation,
    traceparent: str | None,
    event_time: int,
    now: int,
    draft: bool = False,
) -> Job:
    """The job that its route gives an event; it is ready at once."""
    job = _new(
        job_id,
        envelope.tenant_id,
        type_,
        priority,
        topology,
        place=place,
        born=event_time,
        now=now,
    )
    return replace(
        job,
        event=event_info(envelope),
        payload_ref=envelope.payload_ref,
        callback_url=envelope.callback_url,
        traceparent=traceparent,
        draft=job.draft or draft,
    )


def from_submission(
    job_id: str,
    tenant_id: str,
    submit: Submit,
    topology: Topology,
    *,
    place: Generation,
    at: int,
    now: int,
) -> Job:
    """The job of a submission that the broker accepted `at`; it is ready at once, or scheduled."""
    job = _new(
        job_id,
        tenant_id,
        submit.type,
        _declared(submit.priority, topology),
        topology,
        place=place,
        born=at,
        now=now,
    )
    run_at = _wanted_at(submit, at)
    return replace(
        job,
        status=SCHEDULED if run_at is not None and run_at > now else PENDING,
        scheduled_at=run_at,
        input=submit.input,
        request_hash=submit.request_hash,
        asked_timeout_seconds=submit.timeout_seconds,
        timeout_seconds=submit.timeout_seconds or 0.0,
        workflow_id=submit.workflow_id,
        callback_url=submit.callback_url,
        submitted_by=submit.submitted_by,
        traceparent=submit.traceparent,
    )


def from_schedule(
    job_id: str,
    schedule: ScheduleRow,
    occurrence: Occurrence,
    topology: Topology,
    *,
    place: Generation,
    now: int,
) -> Job:
    """The job of one time of a schedule; it is ready at once.

    It is born now, also if its time was missed: its waits need no events of before.
    """
    job = _new(
        job_id,
        schedule.tenant_id,
        schedule.spec.job,
        topology.default_priority,
        topology,
        place=place,
        born=now,
        now=now,
    )
    return replace(
        job,
        input=schedule.spec.input,
        traceparent=new_traceparent(),
        schedule_id=schedule.schedule_id,
        scheduled_for=occurrence.at,
    )


def from_child(
    job_id: str,
    parent: Job,
    spec: ChildSpec,
    gather: str,
    topology: Topology,
    *,
    place: Generation,
    now: int,
) -> Job:
    """The job that a run of `parent` asks for; it is ready at once, or scheduled.

    It belongs to the parent's workflow, and needs approvals where the parent does.
    """
    priority = _declared(spec.priority or parent.priority, topology)
    whose = job_id, parent.tenant_id, spec.type, priority, topology
    job = _new(*whose, place=place, born=now, now=now)
    due = None if not spec.delay_ms else now + min(spec.delay_ms, LONGEST_WAIT_SECONDS * 1000)
    return replace(
        job,
        status=PENDING if due is None else SCHEDULED,
        scheduled_at=due,
        input=spec.input,
        request_hash=spec.digest,
        workflow_id=parent.workflow_id,
        submitted_by=principal_of(parent),
        traceparent=spec.traceparent or parent.traceparent,
        draft=job.draft or parent.draft or topology.job_type(parent.type).draft,
        parent=Parent(parent.job_id, parent.incarnation, spec.call, gather, spec.abandoned),
        depth=parent.depth + 1,
    )


def from_replay(
    job_id: str, replay: Replay, old: Job, topology: Topology, *, at: int, now: int
) -> Job:
    """A new job that does the old one's work again, in the old scope unless a fresh one is asked.

    Type, priority and pool follow the present topology, because the route may have been corrected.
    A job that a replay of events made keeps its type: somebody chose it instead of the route's. A
    replay may bring another input.
    """
    routed = old.event if old.replay_id is None else None
    route = topology.route(routed.source, routed.event_type) if routed else None
    type_ = replay.type or (route.job if route and route.job else old.type)
    of_route = route.priority_of(routed) if routed and route and route.job else old.priority
    priority = _declared(of_route, topology)
    job = _new(job_id, old.tenant_id, type_, priority, topology, place=FIRST, born=at, now=now)
    return replace(
        job,
        scope=job.scope if replay.fresh_scope else old.scope,
        event=old.event,
        payload_ref=old.payload_ref,
        input=old.input if replay.input is None else replay.input,
        asked_timeout_seconds=old.asked_timeout_seconds,
        timeout_seconds=old.asked_timeout_seconds or 0.0,
        workflow_id=old.workflow_id,
        callback_url=old.callback_url,
        replay_of=old.job_id,
        replay_id=old.replay_id,
        replay_note=replay.note,
        submitted_by=replay.submitted_by,
        traceparent=old.traceparent,
        schedule_id=old.schedule_id,
        scheduled_for=old.scheduled_for,
        event_ids=old.event_ids,
        event_count=old.event_count,
        events=old.events,
        draft=job.draft or old.draft or (route is not None and route.draft),
        depth=old.depth,
    )


def from_event_replay(
    job_id: str,
    replay: ReplayEvent,
    envelope: Envelope,
    topology: Topology,
    *,
    at: int,
    now: int,
) -> Job:
    """The job that a replay gives an old event, in a scope of its own.

    Nobody is called back: whoever asked for a callback was told of the event's own job.
    """
    priority = _declared(replay.priority, topology)
    route = topology.route(envelope.source, envelope.event_type)
    job = _new(
        job_id,
        envelope.tenant_id,
        replay.type,
        priority,
        topology,
        place=FIRST,
        born=at,
        now=now,
    )
    return replace(
        job,
        event=event_info(envelope),
        payload_ref=envelope.payload_ref,
        replay_id=replay.replay_id,
        replay_note=replay.note,
        submitted_by=replay.submitted_by,
        traceparent=replay.traceparent,
        draft=job.draft or (route is not None and route.draft),
    )


def _declared(priority: str | None, topology: Topology) -> str:
    """The requested priority if the topology declares it, else the default one."""
    if priority is None or priority not in topology.priorities:
        return topology.default_priority
    return priority


def _wanted_at(submit: Submit, at: int) -> int | None:
    if submit.delay_ms is None:
        return submit.run_at
    return at + min(submit.delay_ms, LONGEST_WAIT_SECONDS * 1000)


def _new(
    job_id: str,
    tenant_id: str,
    type_: str,
    priority: str,
    topology: Topology,
    *,
    place: Generation,
    born: int,
    now: int,
) -> Job:
    declared = topology.job_type(type_)
    return Job(
        job_id=job_id,
        tenant_id=tenant_id,
        incarnation=place.incarnation,
        type=type_,
        pool=declared.pool,
        priority=priority,
        status=PENDING,
        scope=scope_of(job_id, place.incarnation, born),
        attempts=0,
        max_attempts=declared.max_attempts or 0,
        backoff=(),
        timeout_seconds=0.0,
        epoch=place.epoch,
        run_id=None,
        worker_id=None,
        event=None,
        payload_ref=None,
        input="null",
        request_hash=None,
        event_time=born,
        scheduled_at=None,
        next_retry_at=None,
        last_error=None,
        result=None,
        cancel_requested=False,
        workflow_id=None,
        callback_url=None,
        replay_of=None,
        replay_note=None,
        submitted_by=None,
        traceparent=None,
        created_at=now,
        updated_at=now,
        ready_at=now,
        draft=declared.draft,
    )
