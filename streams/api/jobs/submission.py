"""A direct submission on its way to the dispatcher: one key, one job, one body.

The dispatcher decides by its own clock whether a finished job still keeps twins out. So every
submission is sent, unless its job is alive. This module only decides on the answer: a key that was
used with another body must not be answered with the job of that body.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from streams.api.backlog.admission import refuse_full
from streams.api.command_results import command_result, letter_ids, outstanding
from streams.api.job_types.input_check import refuse_misfit
from streams.api.jobs import table as jobs
from streams.api.operator_state import AppState, not_shown
from streams.api.refusal import key_reused
from streams.api.rows.json_values import Json
from streams.api.sent_commands import SentCommand, Subject
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job, Submit


@dataclass(frozen=True, slots=True)
class Submission:
    """A submit command for a tenant; `keyed` if the client can send it again under the same key."""

    tenant_id: str
    job_id: str
    submit: Submit
    keyed: bool

    @property
    def subject(self) -> Subject:
        return "job", self.job_id


async def submitted(state: AppState, asked: Submission, now: int) -> Json | None:
    """Return the job as it is shown once the submission is durable; None if the dispatcher is late.

    Raises:
        Refusal: 409, the key belongs to another body; 422, the input does not fit its type; 429,
            too many jobs wait already; 503, the read model has not caught up, or shows only a twin
            past its window: send the call again.
        KafkaUnavailable: it was not acknowledged; it may still be written.
    """
    async with state.sent_commands.lock(asked.subject):
        twin = await _twin(state, asked, now)
        if twin is not None and twin.status not in TERMINAL:
            return await _shown(state, asked)
        sent = await _send(state, asked, twin)
        if twin is not None and _keeps_twins_out(state, twin, now):
            state.sent_commands.forget(asked.subject)
            return await _shown(state, asked)
    return await _accepted(state, asked, sent)


async def _twin(state: AppState, asked: Submission, now: int) -> Job | None:
    """Return the existing job; refuse if it, or a command on its way, came with another body.

    A submission that would be a new job is refused if its input does not fit its type, and while
    too many wait, but not its repetition.
    """
    twin = await state.query(lambda db: jobs.job(db, asked.job_id))
    if asked.keyed and (twin is None or not _keeps_twins_out(state, twin, now)):
        await state.read_barrier(("jobs", state.home(asked.tenant_id)))
        twin = await state.query(lambda db: jobs.job(db, asked.job_id))
    if twin is not None and _keeps_twins_out(state, twin, now):
        _require_same(asked, twin.request_hash)
    earlier = await outstanding(state, asked.subject)
    if earlier is not None and (twin is None or twin.incarnation <= earlier.after):
        _require_same(asked, earlier.digest)
    if earlier is None and (twin is None or not _keeps_twins_out(state, twin, now)):
        await refuse_misfit(state, asked.submit.type, asked.submit.input)
        await refuse_full(state, asked.tenant_id, asked.submit.type)
    return twin


async def _send(state: AppState, asked: Submission, twin: Job | None) -> SentCommand:
    offset = await state.command(asked.tenant_id, asked.job_id, asked.submit)
    after = twin.incarnation if twin else 0
    told = letter_ids(state, asked.tenant_id, offset)
    sent = SentCommand(asked.job_id, asked.submit.request_hash, after, told)
    state.sent_commands.remember(asked.subject, sent)
    return sent


async def _accepted(state: AppState, asked: Submission, sent: SentCommand) -> Json | None:
    def newer(connection: sqlite3.Connection) -> Job | None:
        found = jobs.job(connection, asked.job_id)
        return found if found is not None and found.incarnation > sent.after else None

    job = await command_result(state, sent.letters, ("jobs", (asked.job_id,)), newer)
    if job is None and sent.after:
        # The read model shows the old twin alone: either the dispatcher is late, or by its own
        # clock the twin is still in its window and keeps this submission out.
        raise not_shown()
    if job is None:
        return None
    state.sent_commands.forget(asked.subject)
    _require_same(asked, job.request_hash)
    return await _shown(state, asked)


async def _shown(state: AppState, asked: Submission) -> Json | None:
    return await state.query(lambda db: jobs.shown_job(db, asked.job_id, state.topology))


def _require_same(asked: Submission, digest: bytes | None) -> None:
    if digest != asked.submit.request_hash:
        raise key_reused(asked.job_id, f"job {asked.job_id}, submitted with another body")


def _keeps_twins_out(state: AppState, job: Job, now: int) -> bool:
    return job.status not in TERMINAL or now - job.event_time <= state.topology.window_ms
