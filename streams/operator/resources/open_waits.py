"""What a job waits for or listens to, as the API shows it."""

from __future__ import annotations

from streams.http.moments import rfc3339
from streams.operator.resources.json_values import Json, parsed
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job, Wait


def waits_json(job: Job) -> list[Json]:
    """Return the open waits of a job; one that it only listens to has `parked` false."""
    return [] if job.status in TERMINAL else [_wait(wait) for wait in job.waits]


def told(job: Job) -> str:
    """Return what a waiting job waits for, for people."""
    waits = [wait for wait in job.waits if wait.group >= 0]
    found = "; ".join(map(_told, waits[:3]))
    return found + (f"; and {len(waits) - 3} more" if len(waits) > 3 else "")


def _wait(wait: Wait) -> Json:
    found: Json = {"kind": wait.kind, "name": wait.id}
    if wait.kind == "event":
        found["match"] = parsed(wait.match)
    if wait.kind == "job":
        found["job_id"] = wait.job_id
    if wait.kind == "approval":
        found["approval_id"] = wait.approval_id
    times = {"since": rfc3339(wait.at), "until": rfc3339(wait.until)}
    return found | times | {"parked": wait.group >= 0}


def _told(wait: Wait) -> str:
    what = {
        "time": f"{wait.id} ends",
        "event": f"an event that matches {wait.match} ({wait.id})",
        "job": f"the end of job {wait.job_id} ({wait.id})",
        "approval": f"approval {wait.approval_id} ({wait.id})",
    }[wait.kind]
    limit = "at" if wait.kind == "time" else "until"
    return what if wait.until is None else f"{what}, {limit} {rfc3339(wait.until)}"
