"""Transitions of a job, as functions from one frozen `Job` to the next.

docs/jobs.md draws the states. Times are in milliseconds, by the broker's time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streams.errors import LONGEST_WAIT_SECONDS
from streams.serde.ids import scope_of
from streams.serde.job_states import (
    CANCELLED,
    DUE_LATER,
    PENDING,
    RUNNING,
    SCHEDULED,
    TERMINAL,
    JobStatus,
)
from streams.serde.records import (
    Command,
    Envelope,
    EventInfo,
    Handler,
    Job,
    Replay,
    ReplayEvent,
    Submit,
    Wake,
)
from streams.topology.model import Route, Topology


@dataclass(frozen=True, slots=True)
class Generation:
    """A new job's incarnation, and the epoch of the job of its id before it."""

    incarnation: int
    epoch: int


FIRST = Generation(1, 0)


def from_event(
    job_id: str,
    envelope: Envelope,
    route: Route,
    topology: Topology,
    *,
    place: Generation,
    traceparent: str | None,
    event_time: int,
    now: int,
) -> Job:
    """The job of an event that a route matches; it is ready at once."""
    job = _new(
        job_id,
        envelope.tenant_id,
        route.job,
        route.priority,
        topology,
        place=place,
        born=event_time,
        now=now,
    )
    return replace(
        job,
        event=_info(envelope),
        payload_ref=envelope.payload_ref,
        callback_url=envelope.callback_url,
        traceparent=traceparent,
    )


def from_submission(
    command: Command, submit: Submit, topology: Topology, *, place: Generation, at: int, now: int
) -> Job:
    """The job of a submission that the broker accepted `at`; it is ready at once, or scheduled."""
    job = _new(
        command.job_id,
        command.tenant_id,
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


def from_replay(
    command: Command, replay: Replay, old: Job, topology: Topology, *, at: int, now: int
) -> Job:
    """A new job that does the old one's work again, in the old scope unless a fresh one is asked.

    Type, priority and pool follow the present topology, because the route may have been corrected.
    A job that a replay of events made keeps its type: somebody chose it instead of the route's.
    """
    routed = old.event if old.replay_id is None else None
    route = topology.route(routed.source, routed.event_type) if routed else None
    type_ = replay.type or (route.job if route else old.type)
    priority = _declared(route.priority if route else old.priority, topology)
    job = _new(
        command.job_id, old.tenant_id, type_, priority, topology, place=FIRST, born=at, now=now
    )
    return replace(
        job,
        scope=job.scope if replay.fresh_scope else old.scope,
        event=old.event,
        payload_ref=old.payload_ref,
        input=old.input,
        asked_timeout_seconds=old.asked_timeout_seconds,
        timeout_seconds=old.asked_timeout_seconds or 0.0,
        workflow_id=old.workflow_id,
        callback_url=old.callback_url,
        replay_of=old.job_id,
        replay_id=old.replay_id,
        replay_note=replay.note,
        submitted_by=replay.submitted_by,
        traceparent=old.traceparent,
    )


def from_event_replay(
    command: Command,
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
    job = _new(
        command.job_id,
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
        event=_info(envelope),
        payload_ref=envelope.payload_ref,
        replay_id=replay.replay_id,
        replay_note=replay.note,
        submitted_by=replay.submitted_by,
        traceparent=replay.traceparent,
    )


def begun(job: Job, run_id: str, worker_id: str, policy: Handler, now: int) -> Job:
    """The job with a new run: a higher epoch and one more attempt, under the present policy."""
    return replace(
        job,
        status=RUNNING,
        confirmed=False,
        attempts=job.attempts + 1,
        epoch=job.epoch + 1,
        run_id=run_id,
        worker_id=worker_id,
        max_attempts=policy.max_attempts,
        backoff=policy.backoff,
        timeout_seconds=policy.timeout_seconds,
        next_retry_at=None,
        updated_at=now,
    )


def ready(job: Job, now: int, *, error: str | None = None, uncount: bool = False) -> Job:
    """The job back in the queue; `uncount` gives it its attempt and its old place back."""
    return replace(
        job,
        status=PENDING,
        attempts=max(0, job.attempts - uncount),
        worker_id=None,
        next_retry_at=None,
        last_error=error or job.last_error,
        end_reason=None,
        updated_at=now,
        ready_at=job.ready_at if uncount else now,
    )


def retried_at(job: Job, due: int, error: str | None, now: int) -> Job:
    """The job, waiting until `due` for its next attempt."""
    return replace(
        job, status=SCHEDULED, worker_id=None, next_retry_at=due, last_error=error, updated_at=now
    )


def ended(
    job: Job, status: JobStatus, now: int, *, result: str | None = None, error: str | None = None
) -> Job:
    """The job in a final state or in `needs_review`; a cancelled job's error is the reason."""
    if status == CANCELLED and job.cancel_reason is not None:
        error = f"Cancelled: {job.cancel_reason}" if job.cancel_reason else "Cancelled"
    return replace(
        job,
        status=status,
        worker_id=None,
        next_retry_at=None,
        result=result,
        last_error=error or job.last_error,
        end_reason=None if status == CANCELLED else job.end_reason,
        updated_at=now,
    )


def wake_of(job: Job, due: int) -> Wake:
    """What a timer that wakes the job at `due` says; a job waits at most once in each epoch."""
    return Wake(job.incarnation, job.epoch, due)


def awaits(job: Job, wake: Wake) -> bool:
    """Whether the job waits for this timer."""
    return job.status in DUE_LATER and wake == wake_of(job, job.due_at or 0)


def is_live(job: Job) -> bool:
    """Whether the job has not ended."""
    return job.status not in TERMINAL


def _info(envelope: Envelope) -> EventInfo:
    return EventInfo(**{name: getattr(envelope, name) for name in EventInfo.__dataclass_fields__})


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
    )
