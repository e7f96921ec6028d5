"""A direct submission on its way to the dispatcher: one key, one job, one body.

The dispatcher decides by its own time whether a finished job still keeps twins out, so a
submission is always sent unless the job it belongs to is alive. Here it is decided only what can
be answered: a key that belongs to another body must not be answered with that other job.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from streams.operator.command_results import letters, outstanding, verdict
from streams.operator.http.app_state import AppState, not_shown
from streams.operator.http.refusal import Refusal
from streams.operator.resources import jobs
from streams.operator.resources.json_values import Json
from streams.operator.turns import Asked, Subject
from streams.serde.records import TERMINAL, Job, Submit


@dataclass(frozen=True, slots=True)
class Submission:
    """A submit for a tenant; `keyed` if its client can send it again."""

    tenant_id: str
    job_id: str
    submit: Submit
    keyed: bool

    @property
    def subject(self) -> Subject:
        return "job", self.job_id


async def submitted(state: AppState, asked: Submission, now: int) -> Json | None:
    """The job as it is shown, once the submission is durable; None where the dispatcher is late.

    Raises:
        Refusal: 409, the key belongs to another body; 503, the read model has not caught up, or
            shows a twin past its window alone: send the call again.
        KafkaUnavailable: it was not acknowledged; it may still be written.
    """
    async with state.turns.of(asked.subject):
        twin = await _twin(state, asked, now)
        if twin is not None and twin.status not in TERMINAL:
            return await _shown(state, asked)
        sent = await _send(state, asked, twin)
        if twin is not None and _keeps_twins_out(state, twin, now):
            state.turns.forget(asked.subject)
            return await _shown(state, asked)
    return await _accepted(state, asked, sent)


async def _twin(state: AppState, asked: Submission, now: int) -> Job | None:
    """The job that is there; neither it nor what is on its way came with another body."""
    twin = await state.ask(lambda db: jobs.job(db, asked.job_id))
    if asked.keyed and (twin is None or not _keeps_twins_out(state, twin, now)):
        await state.recent(("jobs", state.home(asked.tenant_id)))
        twin = await state.ask(lambda db: jobs.job(db, asked.job_id))
    if twin is not None and _keeps_twins_out(state, twin, now):
        _require_same(asked, twin.request_hash)
    earlier = await outstanding(state, asked.subject)
    if earlier is not None and (twin is None or twin.incarnation <= earlier.after):
        _require_same(asked, earlier.digest)
    return twin


async def _send(state: AppState, asked: Submission, twin: Job | None) -> Asked:
    offset = await state.command(asked.tenant_id, asked.job_id, asked.submit)
    after = twin.incarnation if twin else 0
    told = letters(state, asked.tenant_id, offset)
    sent = Asked(asked.job_id, asked.submit.request_hash, after, told)
    state.turns.remember(asked.subject, sent)
    return sent


async def _accepted(state: AppState, asked: Submission, sent: Asked) -> Json | None:
    def newer(connection: sqlite3.Connection) -> Job | None:
        found = jobs.job(connection, asked.job_id)
        return found if found is not None and found.incarnation > sent.after else None

    job = await verdict(state, sent.letters, ("jobs", (asked.job_id,)), newer)
    if job is None and sent.after:
        # The twin past its window says nothing of this one: the dispatcher is late, or by its own
        # time that one still keeps it out.
        raise not_shown()
    if job is None:
        return None
    state.turns.forget(asked.subject)
    _require_same(asked, job.request_hash)
    return await _shown(state, asked)


async def _shown(state: AppState, asked: Submission) -> Json | None:
    return await state.ask(lambda db: jobs.shown_job(db, asked.job_id))


def _require_same(asked: Submission, digest: bytes | None) -> None:
    if digest != asked.submit.request_hash:
        raise Refusal(
            409,
            "key-reused",
            f"this key belongs to job {asked.job_id}, submitted with another body: "
            "send the same body, or a new key",
            job_id=asked.job_id,
        )


def _keeps_twins_out(state: AppState, job: Job, now: int) -> bool:
    return job.status not in TERMINAL or now - job.event_time <= state.topology.window_ms
