"""Makes messages of what happened here: to events, jobs and approvals, a notice, a test."""

from __future__ import annotations

from typing import Any

import orjson

from streams.errors import PoisonRecord
from streams.http.moments import rfc3339
from streams.serde.approval_states import PENDING
from streams.serde.delivery_records import TEST, Outgoing
from streams.serde.ids import delivery_id
from streams.serde.job_states import SUCCEEDED
from streams.serde.records import Approval, Envelope, Job
from streams.tenants.settings import OWN_SOURCE

_JSON = "application/json"


def of_event(envelope: Envelope, happened: int, traceparent: str | None, now: int) -> Outgoing:
    """The message of an event; its body stays where it is, and is opened for each attempt."""
    return Outgoing(
        message_id=envelope.event_id,
        tenant_id=envelope.tenant_id,
        kind="event",
        type=envelope.event_type,
        source=envelope.source,
        subject=envelope.subject,
        time=envelope.occurred_at or happened,
        content_type=envelope.content_type,
        event_id=envelope.event_id,
        job_id=None,
        payload_ref=envelope.payload_ref,
        data=None,
        attributes=envelope.attributes,
        traceparent=traceparent,
        created_at=now,
    )


def check_ids(*ids: str) -> None:
    """Refuse ids that could not be told apart in the store's keys.

    Raises:
        PoisonRecord: an id has a NUL, or is empty.
    """
    if any("\0" in id_ or not id_ for id_ in ids):
        raise PoisonRecord("bad_id", "an id is empty, or has a NUL, which separates parts of keys")


def of_job(job: Job, now: int) -> Outgoing:
    """The message of a job's end, or of its wait for a person.

    A later record of the same end gives the same `message_id`.
    """
    return _ours(
        f"{job.job_id}_{job.incarnation}_{job.epoch}_{job.status}",
        job.tenant_id,
        f"job.{job.status}",
        _job_json(job),
        time=job.updated_at,
        now=now,
        kind="job",
        subject=job.job_id,
        job_id=job.job_id,
        event_id=job.event.event_id if job.event else None,
        traceparent=job.traceparent,
    )


def of_approval(approval: Approval, now: int) -> Outgoing:
    """The message of an approval that is asked for, or that has ended.

    A later record of the same question or end gives the same `message_id`.
    """
    asked = approval.status == PENDING
    return _ours(
        f"{approval.approval_id}_{approval.asked_at}_{approval.status}",
        approval.tenant_id,
        "approval.requested" if asked else "approval.decided",
        _approval_json(approval),
        time=approval.asked_at if asked else approval.ended_at or approval.asked_at,
        now=now,
        kind="job",
        subject=approval.job_id,
        job_id=approval.job_id,
        traceparent=approval.traceparent,
    )


def of_disabled(tenant_id: str, endpoint_id: str, because: str, now: int) -> Outgoing:
    """The notice that the stage disabled an endpoint."""
    return _ours(
        f"{delivery_id(tenant_id, endpoint_id, str(now))}_disabled",  # a name may have a full stop
        tenant_id,
        "endpoint.disabled",
        {"endpoint_id": endpoint_id, "disabled_because": because},
        time=now,
        now=now,
        kind="notice",
        subject=endpoint_id,
    )


def of_test(tenant_id: str, delivery_id: str, sample: str | None, now: int) -> Outgoing:
    """A sample that shows whether an endpoint can be reached."""
    data = _parsed(sample) if sample else {"hello": "This is a test from Tidegate."}
    message_id = f"test_{delivery_id.removeprefix('dlv_')}"
    return _ours(message_id, tenant_id, TEST, data, time=now, now=now, kind=TEST)


def _job_json(job: Job) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "type": job.type,
        "status": job.status,
        "attempts": job.attempts,
        "incarnation": job.incarnation,
        "event_id": job.event.event_id if job.event else None,
        "workflow_id": job.workflow_id,
        "replay_of": job.replay_of,
        "result": None if job.result is None else _parsed(job.result),
        "error": job.last_error if job.status != SUCCEEDED else None,
        "end_reason": job.end_reason,
        "superseded_by": job.superseded_by,
    }


def _approval_json(approval: Approval) -> dict[str, Any]:
    """What finds an approval, and nothing that may quote its prompt and arguments.

    Those are sealed, notes are about them, and digests of short arguments can be guessed.
    """
    return {
        "approval_id": approval.approval_id,
        "tenant_id": approval.tenant_id,
        "job_id": approval.job_id,
        "job_type": approval.job_type,
        "key": approval.key,
        "effects": [{"tool": effect.tool, "key": effect.key} for effect in approval.effects],
        "status": approval.status,
        "quorum": approval.quorum,
        "asked_at": rfc3339(approval.asked_at),
        "expires_at": rfc3339(approval.expires_at),
        "ended_at": rfc3339(approval.ended_at),
        "href": f"/v1/approvals/{approval.approval_id}",
    }


def _parsed(text: str) -> Any:
    """JSON as it stands, or the text itself where another writer left something else.

    It is not written anew: orjson reads JSON that is nested too deep for it to write.
    """
    try:
        orjson.loads(text)
    except ValueError:
        return text
    return orjson.Fragment(text)


def _ours(
    message_id: str, tenant_id: str, type_: str, data: Any, *, time: int, now: int, **rest: Any
) -> Outgoing:
    known = {"subject": None, "job_id": None, "event_id": None, "traceparent": None} | rest
    return Outgoing(
        message_id=message_id,
        tenant_id=tenant_id,
        type=type_,
        source=OWN_SOURCE,
        time=time,
        content_type=_JSON,
        payload_ref=None,
        data=orjson.dumps(data),
        attributes={},
        created_at=now,
        **known,
    )
