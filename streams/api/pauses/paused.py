"""What is paused, by whom and why."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import orjson

from streams.api.remedy import Remedy
from streams.api.rows.json_values import Json
from streams.http.moments import rfc3339
from streams.limits.buckets import Bucket
from streams.limits.paused import SCOPES, Scope, bucket_of
from streams.serde.codec import TENANT
from streams.serde.records import Job
from streams.tenants.pauses import Pause, pause_in
from streams.topology.limits import Limit

Pauses = Mapping[tuple[Scope, str], Pause]


def all_pauses(connection: sqlite3.Connection) -> Pauses:
    """Return every pause by what it stops; one that only some partitions have counts, too."""
    rows = connection.execute("SELECT record FROM tenants WHERE kind = 'pause'")
    found = sorted((pause_in(TENANT.decode(row[0])) for row in rows), key=lambda pause: pause.at)
    return {(pause.scope, pause.value): pause for pause in found}


def of_job(pauses: Pauses, job: Job) -> Pause | None:
    """Return the pause that keeps a job from starting; the widest one if there are several."""
    source = None if job.event is None else job.event.source
    tools = (key.key for key in job.limit_keys if key.limit == bucket_of("tool", "").limit)
    named: list[tuple[Scope, str | None]] = [
        ("pool", job.pool),
        ("source", source),
        ("job_type", job.type),
        ("tenant", job.tenant_id),
        *(("tool", tool) for tool in tools),
    ]
    found = (pauses.get((scope, value)) for scope, value in named if value is not None)
    return next((pause for pause in found if pause is not None), None)


def of_bucket(pauses: Pauses, limit: Limit, bucket: Bucket) -> Pause | None:
    """Return the pause of what a bucket counts: of its value, or of its tenant."""
    own = next((scope for scope in SCOPES if scope == limit.scope), None)
    found = None if own is None else pauses.get((own, bucket.key))
    return found or pauses.get(("tenant", bucket.tenant_id))


def pause_json(pause: Pause) -> Json:
    """Return what is paused, by whom, why and since when."""
    return {"scope": pause.scope, "value": pause.value, **who_json(pause)}


def who_json(pause: Pause) -> Json:
    """Return by whom something is paused, why and since when."""
    return {"by": pause.by, "reason": pause.reason, "at": rfc3339(pause.at)}


def sentence(pause: Pause) -> str:
    """Return in one line what is paused, since when, by whom and why."""
    return (
        f"{pause.scope.replace('_', ' ')} {pause.value!r} is paused since {rfc3339(pause.at)} by "
        f"{pause.by}: {pause.reason}. It starts once that is resumed"
    )


def resume(pause: Pause) -> Remedy:
    """Return the call that ends a pause."""
    body = orjson.dumps({"scope": pause.scope, "value": pause.value}).decode()
    return Remedy("POST", "/v1/limits/resume", body)
