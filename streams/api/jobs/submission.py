"""A direct submission on its way to the dispatcher: one key, one job, one body.

The dispatcher decides whether it makes a job, is a twin, or has a key that came with another body.
A job that it makes is its answer; the others are answered by an entry of the audit.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from streams.api.audit import table as audit
from streams.api.backlog.admission import refuse_full
from streams.api.decisions import Decision, decision, require_done
from streams.api.job_types.input_check import refuse_misfit
from streams.api.jobs import table as jobs
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, key_reused
from streams.api.rows.json_values import Json
from streams.serde.job_states import TERMINAL
from streams.serde.records import AuditEntry, Job, Submit


@dataclass(frozen=True, slots=True)
class Submission:
    """A submit command for a tenant; `keyed` if the client can send it again under the same key."""

    tenant_id: str
    job_id: str
    submit: Submit
    keyed: bool

    def is_of(self, job: Job | None) -> bool:
        """Return whether a job was made for this body."""
        return job is not None and job.request_hash == self.submit.request_hash


async def submitted(state: AppState, asked: Submission) -> Json:
    """Return the job as it is shown, or what is known of it if the dispatcher is late.

    Raises:
        Refusal: 409, the key belongs to another body; 422, the input does not fit its type; 429,
            too many jobs wait already; 503, the read model has not caught up: send it again.
        KafkaUnavailable: it was not acknowledged; it may still be written.
    """
    twin = await _known(state, asked)
    if twin is not None and twin.status not in TERMINAL:  # a live job keeps every twin out
        if not asked.is_of(twin):
            raise key_reused(asked.job_id, f"job {asked.job_id}, submitted with another body")
        return await _shown(state, asked) or {}
    if not asked.is_of(twin):  # a repetition is let in as it was
        await refuse_misfit(state, asked.submit.type, asked.submit.input)
        await refuse_full(state, asked.tenant_id, asked.submit.type)
    command_id = await state.command(asked.tenant_id, asked.job_id, asked.submit)
    if await _is_answered(state, asked, command_id, twin.incarnation if twin else 0):
        shown = await _shown(state, asked)
        if shown is not None:
            return shown
    return _unanswered(asked, Decision(command_id, None))


async def _known(state: AppState, asked: Submission) -> Job | None:
    """Return the job of this id, as it is now if the client may have sent the key before."""
    twin = await state.query(lambda db: jobs.job(db, asked.job_id))
    if asked.keyed and (twin is None or twin.status in TERMINAL):
        await state.read_barrier(("jobs", state.home(asked.tenant_id)))
        twin = await state.query(lambda db: jobs.job(db, asked.job_id))
    return twin


async def _is_answered(state: AppState, asked: Submission, command_id: str, after: int) -> bool:
    """Wait for a job of this body that is newer than `after`, or for an entry of the audit."""

    def look(connection: sqlite3.Connection) -> AuditEntry | Job | None:
        entry = audit.answer_to(connection, command_id)
        job = jobs.job(connection, asked.job_id)
        is_made = job is not None and job.incarnation > after and asked.is_of(job)
        return entry or (job if is_made else None)

    row, other = ("jobs", (asked.job_id,)), (audit.TABLE.name, (command_id,))
    found = await state.wait_for(row, look, [other])
    if isinstance(found, AuditEntry):
        try:
            require_done(found)
        except Refusal as refusal:
            refusal.extra["job_id"] = asked.job_id
            raise
        await decision(state, asked.tenant_id, command_id, "jobs")
    return found is not None


async def _shown(state: AppState, asked: Submission) -> Json | None:
    return await state.query(lambda db: jobs.shown_job(db, asked.job_id, state.topology))


def _unanswered(asked: Submission, decision: Decision) -> Json:
    """Return what is known of a job before the dispatcher has taken its submission."""
    return {
        "job_id": asked.job_id,
        "tenant_id": asked.tenant_id,
        "type": asked.submit.type,
        **decision.json(),
    }
