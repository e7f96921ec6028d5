"""The life of a job, as functions from one frozen `Job` to the next.

docs/jobs.md draws the states. Times are milliseconds of the dispatcher's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streams.serde.records import (
    TERMINAL,
    Command,
    Envelope,
    EventInfo,
    Handler,
    Job,
    JobStatus,
    Replay,
    Submit,
    Wake,
)
from streams.topology.model import Route, Topology


def scope_of(job_id: str, incarnation: int) -> str:
    """The idempotency scope of a job's own effects; a replay may share another's."""
    return f"{job_id}.{incarnation}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a new job stands among those of its id; `epoch` goes on from the one before."""

    incarnation: int
    epoch: int


FIRST = Place(1, 0)


def from_event(
    job_id: str, envelope: Envelope, route: Route, topology: Topology, *,
    place: Place, traceparent: str | None, event_time: int, now: int,
) -> Job:  # fmt: skip
    """The job of an event that a route matches, ready at once."""
    job = _new(job_id, envelope.tenant_id, route.job, route.priority, topology, now)
    event = EventInfo(**{name: getattr(envelope, name) for name in EventInfo.__dataclass_fields__})
    return replace(
        job,
        incarnation=place.incarnation,
        epoch=place.epoch,
        scope=scope_of(job_id, place.incarnation),
        event=event,
        payload_ref=envelope.payload_ref,
        event_time=event_time,
        callback_url=envelope.callback_url,
        traceparent=traceparent,
    )


def from_submission(
    command: Command, submit: Submit, topology: Topology, *, place: Place, now: int
) -> Job:
    """The job of a direct submission: ready at once, or scheduled."""
    priority = submit.priority or topology.default_priority
    job = _new(command.job_id, command.tenant_id, submit.type, priority, topology, now)
    delayed = submit.run_at is not None and submit.run_at > now
    return replace(
        job,
        incarnation=place.incarnation,
        epoch=place.epoch,
        scope=scope_of(command.job_id, place.incarnation),
        status="scheduled" if delayed else "pending",
        scheduled_at=submit.run_at,
        input=submit.input,
        request_hash=submit.request_hash,
        asked_timeout_seconds=submit.timeout_seconds,
        timeout_seconds=submit.timeout_seconds or 0,
        workflow_id=submit.workflow_id,
        callback_url=submit.callback_url,
        submitted_by=submit.submitted_by,
        traceparent=submit.traceparent,
    )


def from_replay(command: Command, replay: Replay, old: Job, now: int) -> Job:
    """A new job that does the old one's work again, in its scope unless a fresh one is asked."""
    own_scope = scope_of(command.job_id, 1)
    return replace(
        old,
        job_id=command.job_id,
        incarnation=1,
        scope=own_scope if replay.fresh_scope else old.scope,
        status="pending",
        attempts=0,
        epoch=0,
        run_id=None,
        worker_id=None,
        event_time=now,
        scheduled_at=None,
        next_retry_at=None,
        last_error=None,
        result=None,
        cancel_requested=False,
        request_hash=None,
        replay_of=old.job_id,
        replay_note=replay.note,
        submitted_by=replay.submitted_by,
        created_at=now,
        updated_at=now,
        ready_at=now,
    )


def begun(job: Job, run_id: str, worker_id: str, policy: Handler, now: int) -> Job:
    """A run starts: a higher epoch, one more attempt, under the policy that holds now."""
    return replace(
        job,
        status="running",
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
    """Back in the queue, at its old place where the attempt was none (`uncount`)."""
    return replace(
        job,
        status="pending",
        attempts=max(0, job.attempts - uncount),
        worker_id=None,
        next_retry_at=None,
        last_error=error or job.last_error,
        updated_at=now,
        ready_at=job.ready_at if uncount else now,
    )


def retried_at(job: Job, due: int, error: str | None, now: int) -> Job:
    """Waits for its next attempt."""
    return replace(
        job, status="scheduled", worker_id=None, next_retry_at=due, last_error=error, updated_at=now
    )


def ended(
    job: Job, status: JobStatus, now: int, *, result: str | None = None, error: str | None = None
) -> Job:
    """A final state, or `needs_review`."""
    return replace(
        job,
        status=status,
        worker_id=None,
        next_retry_at=None,
        result=result,
        last_error=error or job.last_error,
        updated_at=now,
    )


def due_at(job: Job) -> int:
    """When a scheduled job is to become ready, in milliseconds."""
    return job.next_retry_at or job.scheduled_at or 0


def awaits(job: Job, incarnation: int, wake: Wake) -> bool:
    """Whether the job waits for this very timer; older versions did not name its time."""
    timer = (job.incarnation, wake.due_at or due_at(job), job.attempts)
    return job.status == "scheduled" and timer == (incarnation, due_at(job), wake.attempts)


def is_live(job: Job) -> bool:
    """Whether the job has not ended."""
    return job.status not in TERMINAL


def _new(
    job_id: str, tenant_id: str, type_: str, priority: str, topology: Topology, now: int
) -> Job:
    declared = topology.job_type(type_)
    return Job(
        job_id=job_id,
        tenant_id=tenant_id,
        incarnation=1,
        type=type_,
        pool=declared.pool,
        priority=priority,
        status="pending",
        scope=scope_of(job_id, 1),
        attempts=0,
        max_attempts=declared.max_attempts or 0,
        backoff=(),
        timeout_seconds=0,
        epoch=0,
        run_id=None,
        worker_id=None,
        event=None,
        payload_ref=None,
        input="null",
        request_hash=None,
        event_time=now,
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
