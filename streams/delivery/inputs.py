"""What records of the inputs tell endpoints, and when it happened: one row for each input."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from streams.delivery import messages
from streams.delivery.step import Step
from streams.runtime.processor import Record
from streams.serde.approval_states import PENDING, ApprovalStatus
from streams.serde.codec import APPROVAL, ENVELOPE, JOB
from streams.serde.delivery_records import Outgoing
from streams.serde.headers import traceparent
from streams.serde.job_states import SENT
from streams.serde.records import Job

_COMMITTED_MS = 60_000
"""A job's record is written at most so long after its state was set: no transaction is longer."""
Told = tuple[Outgoing, int]
"""A message, and when what it tells happened: a broker's time in milliseconds."""


def happening(record: Record, step: Step) -> Told | None:
    """What a record tells endpoints; None: nothing.

    Raises:
        PoisonRecord: the record cannot be decoded, or its ids cannot be used.
    """
    return _TOLD[record.topic](record, step)


def _of_event(record: Record, step: Step) -> Told:
    envelope = ENVELOPE.decode(record.value)
    messages.check_ids(envelope.tenant_id, envelope.event_id)
    trace = traceparent(record.headers)
    return messages.of_event(envelope, record.timestamp, trace, step.now), record.timestamp


def _of_job(record: Record, step: Step) -> Told | None:
    job = job_told(record, step)
    return None if job is None else (messages.of_job(job, step.now), ended_at(job, record))


def job_told(record: Record, step: Step) -> Job | None:
    """The job in a record, if endpoints are told of its state; most records are not decoded.

    The record of a job that has ended may be written again (`_is_written_again`). If the job ended
    so long ago that its deliveries may be deleted, endpoints are not told again.
    """
    if record.value is None or JOB.read(record.value)["status"] not in SENT:
        return None
    job = JOB.decode(record.value)
    messages.check_ids(job.tenant_id, job.job_id)
    is_old = step.now - job.updated_at >= step.shared.rules.keep_ms
    return None if is_old and _is_written_again(job, record) else job


def ended_at(job: Job, record: Record) -> int:
    """When a job got its state: a record that was written again is later."""
    return job.updated_at if _is_written_again(job, record) else record.timestamp


def _is_written_again(job: Job, record: Record) -> bool:
    """Whether a record of a job that has ended is not the first one of its end.

    A replay of the job writes it again, and so does a replay of its parent, which takes it over.
    """
    return job.replayed_as is not None or record.timestamp - job.updated_at > _COMMITTED_MS


def _of_approval(record: Record, step: Step) -> Told | None:
    """The message of an approval that is asked for, or that has ended.

    A vote writes a pending approval again, which gives the same message. One that is so old that
    its deliveries may be deleted is not told, because nothing would show that it was told before.
    """
    approval = None if record.value is None else APPROVAL.decode(record.value)
    if approval is None or approval.status not in get_args(ApprovalStatus):
        return None
    messages.check_ids(approval.tenant_id, approval.approval_id)
    message = messages.of_approval(approval, step.now)
    if step.now - message.time >= step.shared.rules.keep_ms:
        return None
    voted = approval.status == PENDING and approval.votes
    return message, message.time if voted else record.timestamp


_TOLD: dict[str, Callable[[Record, Step], Told | None]] = {
    "events": _of_event,
    "jobs": _of_job,
    "approvals": _of_approval,
}
TOPICS = tuple(_TOLD)
"""In the order in which they are read again; kept in stores by number, so append new ones."""
