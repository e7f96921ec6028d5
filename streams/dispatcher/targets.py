"""What an audit entry shows of a command's target: its state before the command, and after."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from streams import user_json
from streams.dispatcher import approval_rows, schedule_rows
from streams.dispatcher.step import Step
from streams.ledger_entries import get
from streams.serde.effect_scopes import effect_scope
from streams.serde.records import (
    Command,
    Decide,
    DeleteSchedule,
    Job,
    PauseSchedule,
    Replay,
    ScheduleRow,
    SetSchedule,
    Settle,
)

_State = Mapping[str, Any]
_MOST_CHARS = 256
"""Of a text: people may choose it."""


def state(step: Step, command: Command) -> str | None:
    """The state of a command's target now, as JSON; None if its tenant has no such thing."""
    found = _state(step, command)
    return None if found is None else user_json.write(found).decode()


def job_of(step: Step, command: Command, job_id: str) -> Job | None:
    """A job of the command's tenant."""
    job = step.table.get(job_id)
    return job if job is not None and job.tenant_id == command.tenant_id else None


def _state(step: Step, command: Command) -> _State | None:
    match command.body:
        case SetSchedule() | PauseSchedule() | DeleteSchedule() as body:
            return _schedule(schedule_rows.find(step, command.tenant_id, body.schedule_id))
        case Decide():
            return _approval(step, command, command.body)
        case Settle():
            return _effect(step, command, command.body)
        case Replay(replay_of=old):
            return _job(job_of(step, command, old))
    return _job(job_of(step, command, command.job_id))


def _job(job: Job | None) -> _State | None:
    if job is None:
        return None
    return {
        "status": job.status,
        "incarnation": job.incarnation,
        "pool": (job.asked_pool or job.pool)[:_MOST_CHARS],
        "cancel_requested": job.cancel_requested,
        "replayed_as": job.replayed_as,
    }


def _approval(step: Step, command: Command, body: Decide) -> _State | None:
    job = job_of(step, command, command.job_id)
    found = None if job is None else approval_rows.find(step, job, body.approval_id)
    return None if found is None else {"status": found.status, "votes": len(found.votes)}


def _effect(step: Step, command: Command, body: Settle) -> _State | None:
    job = job_of(step, command, command.job_id)
    scope = effect_scope("" if job is None else job.scope, body.once_per)
    entry = get(step.ledger, command.tenant_id, scope, body.action)
    return None if entry is None else {"status": entry.status}


def _schedule(row: ScheduleRow | None) -> _State | None:
    """A schedule without the input of its jobs, which may have secrets."""
    if row is None:
        return None
    spec = row.spec
    return {
        "job": spec.job[:_MOST_CHARS],
        "cron": None if spec.cron is None else spec.cron[:_MOST_CHARS],
        "every_ms": spec.every_ms,
        "at": spec.at,
        "tz": spec.tz[:_MOST_CHARS],
        "paused": row.paused,
        "input_sha256": sha256(spec.input.encode()).hexdigest(),
    }
