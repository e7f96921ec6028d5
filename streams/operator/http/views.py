"""Values as the API shows them: plain JSON, times as RFC 3339 in UTC with milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from streams.serde.records import (
    Attempt,
    Duplicate,
    Held,
    Job,
    LedgerEntry,
    Quarantined,
    Rejection,
    TenantRecord,
)
from streams.tenants.settings import source_settings
from streams.tenants.source_keys import holds, keys_of

Json = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST_MS, _LATEST_MS = -62_135_596_800_000, 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class Around:
    """What stands on other topics about a job; `progress` and the steps' values are JSON text."""

    effects: tuple[LedgerEntry, ...] = ()
    steps: tuple[tuple[str, str], ...] = ()
    progress: str | None = None
    duplicates: Duplicate | None = None
    held: Held | None = None


def job_json(job: Job, around: Around) -> Json:
    """A job with its effects, in the order they were first claimed, and its finished steps."""
    return {
        "job_id": job.job_id,
        "tenant_id": job.tenant_id,
        "type": job.type,
        "pool": job.pool,
        "asked_pool": job.asked_pool,
        "status": job.status,
        "held": None if around.held is None else held_reason(around.held),
        "priority": job.priority,
        "attempts": job.attempts,
        "lost": job.lost,
        "incarnation": job.incarnation,
        "event_id": job.event.event_id if job.event else None,
        "run_id": job.run_id,
        "workflow_id": job.workflow_id,
        "callback_url": job.callback_url,
        "payload_ref": asdict(job.payload_ref) if job.payload_ref else None,
        "timeout_seconds": job.timeout_seconds,
        "scheduled_at": rfc3339(job.scheduled_at),
        "next_retry_at": rfc3339(job.next_retry_at),
        "last_error": job.last_error,
        "end_reason": job.end_reason,
        "history": [attempt_json(each) for each in job.history],
        "result": _parsed(job.result),
        "effects": [effect_json(entry) for entry in around.effects],
        "steps": [{"name": name, "value": _parsed(value)} for name, value in around.steps],
        "progress": _parsed(around.progress),
        "duplicates": _counted(around.duplicates),
        "cancel_requested": job.cancel_requested,
        "cancel_reason": job.cancel_reason,
        "replay_of": job.replay_of,
        "replay_note": job.replay_note,
        "replayed_as": job.replayed_as,
        "submitted_by": job.submitted_by,
        "trace_id": trace_id(job.traceparent),
        "created_at": rfc3339(job.created_at),
        "updated_at": rfc3339(job.updated_at),
    }


def effect_json(entry: LedgerEntry) -> Json:
    """One side effect as the ledger knows it; `claims` is how often it was granted."""
    return {
        "action": entry.action,
        "status": entry.status,
        "idempotency_key": entry.idempotency_key,
        "claims": entry.claims,
        "result": _parsed(entry.result),
        "error": entry.error,
        "settled_by": entry.settled_by,
        "note": entry.note,
        "updated_at": rfc3339(entry.updated_at),
    }


def attempt_json(run: Attempt) -> Json:
    """A run that did not succeed; `worker_id` names the process that had it."""
    return asdict(run) | {"at": rfc3339(run.at)}


def held_reason(held: Held) -> Json:
    """Why no lease can be made, since when, and the remedy."""
    return {"reason": held.reason, "since": rfc3339(held.since), "detail": held.detail}


def held_json(held: Held) -> Json:
    """Jobs of one pool and type that wait in one partition; `jobs` is how many there were."""
    return {
        "partition": held.partition,
        "pool": held.pool,
        "type": held.type,
        "tenant_id": held.tenant_id,
        "jobs": held.jobs,
        **held_reason(held),
    }


def quarantined_json(record: Quarantined) -> Json:
    """A quarantined body: its facts, why it is there and what became of it."""
    return {
        "id": record.event_id,
        "event_id": record.event_id,
        "tenant_id": record.tenant_id,
        "source": record.source,
        "status": "waiting" if record.released_at is None else "released",
        "reason": record.reason,
        "detail": record.detail,
        "received_at": rfc3339(record.received_at),
        "payload_hash": record.payload_hash.hex(),
        "payload_ref": asdict(record.payload_ref),
        "content_type": record.content_type,
        "request_id": record.request_id,
        "headers": record.headers,
        "trace_id": trace_id(record.traceparent),
        "released_at": rfc3339(record.released_at),
        "note": record.note,
        "released_by": record.released_by,
        "job_id": record.job_id,
    }


def rejection_json(record: Rejection) -> Json:
    """Refusals of one kind within one interval."""
    return {
        "id": record.id,
        "tenant_id": record.tenant_id,
        "source": record.source,
        "reason": record.reason,
        "count": record.count,
        "first_at": rfc3339(record.first_at),
        "last_at": rfc3339(record.last_at),
    }


def duplicate_json(fingerprint: str, record: Duplicate) -> Json:
    """An event whose deliveries were dropped; the id is that of the last one's envelope."""
    return {
        "fingerprint": fingerprint,
        "tenant_id": record.tenant_id,
        "count": record.count,
        "first_at": rfc3339(record.first_at),
        "last_at": rfc3339(record.last_at),
        "last_event_id": record.last_event_id,
    }


def _counted(record: Duplicate | None) -> Json | None:
    if record is None:
        return None
    return {"count": record.count, "last_at": rfc3339(record.last_at)}


def tenant_json(record: TenantRecord, sources: Iterable[str], erased_at: int | None) -> Json:
    """A tenant and the names of its sources; `erased_at` in milliseconds."""
    settings: Json = orjson.loads(record.body)
    return {
        "tenant_id": record.tenant_id,
        **settings,
        "disabled": record.disabled,
        "erased_at": rfc3339(erased_at),
        "sources": list(sources),
        "updated_at": rfc3339(record.updated_at),
    }


def source_json(record: TenantRecord, now: int) -> Json:
    """A source; of its secrets how many verify at `now` (ms), their references and ends."""
    settings: Mapping[str, Any] = source_settings(record).model_dump()
    keys = [key for key in keys_of(record) if holds(key, now)]
    return {
        "tenant_id": record.tenant_id,
        "source": record.id,
        **settings,
        "disabled": record.disabled,
        "secrets": len(keys),
        "secret_ref": keys[0].reference if keys else None,
        "old_secrets": [
            {"secret_ref": key.reference, "valid_until": rfc3339(key.until)} for key in keys[1:]
        ],
        "updated_at": rfc3339(record.updated_at),
    }


def rfc3339(milliseconds: int | None) -> str | None:
    """A time as `2026-11-21T04:05:06.789Z`; one outside the years 1 to 9999 as their bound.

    Total: one record with an absurd time must not make lists that hold it fail.
    """
    if milliseconds is None:
        return None
    within = min(max(milliseconds, _EARLIEST_MS), _LATEST_MS)
    moment = _EPOCH + timedelta(milliseconds=within)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parsed(text: str | None) -> Any:
    """JSON text as JSON; what is not JSON stays text rather than hiding the whole job."""
    if text is None:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def trace_id(traceparent: str | None) -> str | None:
    """Second field of a W3C traceparent."""
    state = (traceparent or "").split("-")
    return state[1] if len(state) == 4 else None
