"""A job as the API shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from streams.api.effects.table import effect_json
from streams.api.jobs.held_table import held_reason
from streams.api.jobs.open_waits import Gathers, waits_json
from streams.api.rows.json_values import Json, parsed, trace_id
from streams.api.steps.table import Step, step_json
from streams.http.moments import rfc3339
from streams.serde.effect_scopes import full_action
from streams.serde.effect_states import CLAIMED
from streams.serde.principals import principal_of
from streams.serde.records import Attempt, Duplicate, Held, Job, LedgerEntry, Parent


@dataclass(frozen=True, slots=True)
class JobDetails:
    """What other topics hold about a job; `progress`, `heartbeat` and the steps' values are JSON
    text.

    `settle_after` tells of each effect that waits for a person, by its full action, when it can be
    settled, in milliseconds.
    """

    effects: tuple[LedgerEntry, ...] = ()
    steps: tuple[Step, ...] = ()
    progress: str | None = None
    duplicates: Duplicate | None = None
    held: Held | None = None
    settle_after: Mapping[str, int] = field(default_factory=dict)
    gathers: Gathers = field(default_factory=dict)
    heartbeat: str | None = None

    def awaited(self, job: Job) -> LedgerEntry | None:
        """The effect that the job waits for, while a run of another job makes it."""
        for entry in self.effects:
            if full_action(entry.scope, entry.action) == job.awaits_effect:
                return entry if entry.status == CLAIMED else None
        return None

    @property
    def size(self) -> int:
        """About how many bytes these take in an answer."""
        effects = sum(len(entry.result or "") + len(entry.error or "") for entry in self.effects)
        return effects + sum(len(step.value) for step in self.steps) + len(self.progress or "")


def job_json(job: Job, details: JobDetails) -> Json:
    """Return a job with what other topics hold about it."""
    return {
        "job_id": job.job_id,
        "tenant_id": job.tenant_id,
        "type": job.type,
        "pool": job.pool,
        "asked_pool": job.asked_pool,
        "status": job.status,
        "held": None if details.held is None else held_reason(details.held),
        "priority": job.priority,
        "waits": waits_json(job, details.awaited(job), details.gathers),
        "draft": job.draft,
        "attempts": job.attempts,
        "resumes": job.resumes,
        "code": job.code,
        "code_at_start": job.code_at_start,
        "diverged": job.diverged,
        "lost": job.lost,
        "incarnation": job.incarnation,
        "event_id": job.event.event_id if job.event else None,
        "event_ids": list(job.all_event_ids),
        "event_count": max(job.event_count, len(job.all_event_ids)),
        "superseded_by": job.superseded_by,
        "queued_behind": job.queued_behind,
        "expires_at": rfc3339(job.expires_at),
        "run_id": job.run_id,
        "worker_id": job.worker_id,
        "began_at": rfc3339(job.began_at),
        "workflow_id": job.workflow_id,
        "parent": None if job.parent is None else parent_json(job.parent),
        "depth": job.depth,
        "continuations": job.continuations,
        "callback_url": job.callback_url,
        "payload_ref": asdict(job.payload_ref) if job.payload_ref else None,
        # Before its first run a job has only the timeout that its submission asked for.
        "timeout_seconds": job.timeout_seconds or None,
        "schedule_id": job.schedule_id,
        "scheduled_for": rfc3339(job.scheduled_for),
        "scheduled_at": rfc3339(job.scheduled_at),
        "next_retry_at": rfc3339(job.next_retry_at),
        "last_error": job.last_error,
        "end_reason": job.end_reason,
        "history": [_attempt(each) for each in job.history],
        "result": parsed(job.result),
        "effects": [
            effect_json(entry, details.settle_after.get(full_action(entry.scope, entry.action)))
            for entry in details.effects
        ],
        "steps": [step_json(step) for step in details.steps],
        "progress": parsed(details.progress),
        "heartbeat": parsed(details.heartbeat),
        "duplicates": _counted(details.duplicates),
        "cancel_requested": job.cancel_requested,
        "cancel_reason": job.cancel_reason,
        "replay_of": job.replay_of,
        "replay_note": job.replay_note,
        "replay_id": job.replay_id,
        "replayed_as": job.replayed_as,
        "submitted_by": job.submitted_by,
        "principal": principal_of(job),
        "trace_id": trace_id(job.traceparent),
        "created_at": rfc3339(job.created_at),
        "updated_at": rfc3339(job.updated_at),
    }


def parent_json(parent: Parent) -> Json:
    """Return which job asked for one, and by which call.

    The job goes on if its parent ends without success, when it is `abandoned`.
    """
    return asdict(parent) | {"gather": parent.gather or None}


def _attempt(run: Attempt) -> Json:
    """Return a run that did not succeed; `worker_id` names the process that had it.

    `traceback` has the handler's own frames, in the newest run that has one.
    """
    return asdict(run) | {"at": rfc3339(run.at), "began_at": rfc3339(run.began_at)}


def _counted(duplicates: Duplicate | None) -> Json | None:
    if duplicates is None:
        return None
    return {"count": duplicates.count, "last_at": rfc3339(duplicates.last_at)}
