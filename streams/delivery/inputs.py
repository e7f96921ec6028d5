"""What records of `events` and `jobs` tell endpoints, and when it happened."""

from __future__ import annotations

from streams.delivery import messages
from streams.delivery.step import Step
from streams.runtime.processor import Record
from streams.serde.codec import ENVELOPE, JOB
from streams.serde.delivery_records import Outgoing
from streams.serde.headers import traceparent
from streams.serde.job_states import SENT
from streams.serde.records import Job


def happening(record: Record, step: Step) -> tuple[Outgoing | None, int]:
    """The message of a record, and when it happened."""
    if record.topic == "events":
        return event_message(record, step), record.timestamp
    job = job_told(record, step)
    return (None, 0) if job is None else (messages.of_job(job, step.now), ended_at(job, record))


def event_message(record: Record, step: Step) -> Outgoing:
    """The message of an event.

    Raises:
        PoisonRecord: the record cannot be decoded, or its ids cannot be used.
    """
    envelope = ENVELOPE.decode(record.value)
    messages.check_ids(envelope.tenant_id, envelope.event_id)
    trace = traceparent(record.headers)
    return messages.of_event(envelope, record.timestamp, trace, step.now)


def job_told(record: Record, step: Step) -> Job | None:
    """The job in a record, if endpoints are told of its state; most records are not decoded.

    A replay writes the record of the old job again. If that job ended so long ago that its
    deliveries may be deleted, endpoints are not told again.
    """
    if record.value is None or JOB.read(record.value)["status"] not in SENT:
        return None
    job = JOB.decode(record.value)
    messages.check_ids(job.tenant_id, job.job_id)
    if job.replayed_as is not None and step.now - job.updated_at >= step.shared.rules.keep_ms:
        return None
    return job


def ended_at(job: Job, record: Record) -> int:
    """When a job got its state: a record that a replay wrote again is later."""
    return record.timestamp if job.replayed_as is None else job.updated_at
