"""Jobs whose command is durable, as the read model will first show them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streams.serde.job_states import PENDING
from streams.serde.records import Job, Replay, Submit
from streams.topology.model import Topology

_DEFAULT_TIMEOUT_SECONDS = 300.0
_NEW: dict[str, Any] = {
    "incarnation": 1,
    "status": PENDING,
    "attempts": 0,
    "epoch": 0,
    "run_id": None,
    "worker_id": None,
    "next_retry_at": None,
    "last_error": None,
    "result": None,
    "cancel_requested": False,
}
"""The same in every new job."""


def pending_job(tenant_id: str, job_id: str, submit: Submit, topology: Topology, now: int) -> Job:
    """Return the job of a submission that the dispatcher has yet to read; `now` in milliseconds."""
    declared = topology.job_type(submit.type)
    due = now + submit.delay_ms if submit.delay_ms is not None else submit.run_at
    return Job(
        job_id=job_id,
        tenant_id=tenant_id,
        type=submit.type,
        pool=declared.pool,
        priority=submit.priority or topology.default_priority,
        scope="",
        max_attempts=declared.max_attempts or 1,
        backoff=(),
        timeout_seconds=submit.timeout_seconds
        or declared.timeout_seconds
        or _DEFAULT_TIMEOUT_SECONDS,
        event=None,
        payload_ref=None,
        input=submit.input,
        request_hash=submit.request_hash,
        event_time=now,
        scheduled_at=due,
        workflow_id=submit.workflow_id,
        callback_url=submit.callback_url,
        replay_of=None,
        replay_note=None,
        submitted_by=submit.submitted_by,
        traceparent=submit.traceparent,
        created_at=now,
        updated_at=now,
        ready_at=now,
        **_NEW,
    )


def pending_replay(job: Job, job_id: str, replay: Replay, topology: Topology, now: int) -> Job:
    """Return the replay of `job` that the dispatcher has yet to make; `now` in milliseconds."""
    routed = job.event if job.replay_id is None else None
    route = topology.route(routed.source, routed.event_type) if routed else None
    type_ = replay.type or (route.job if route else job.type)
    return replace(
        job,
        job_id=job_id,
        type=type_,
        pool=topology.job_type(type_).pool,
        scheduled_at=None,
        cancel_reason=None,
        end_reason=None,
        replayed_as=None,
        asked_pool=None,
        lost=0,
        lost_alone=0,
        history=(),
        replay_of=replay.replay_of,
        replay_note=replay.note,
        submitted_by=replay.submitted_by,
        created_at=now,
        updated_at=now,
        ready_at=now,
        **_NEW,
    )
