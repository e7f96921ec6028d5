"""What a job waits for or listens to, as the API shows it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from streams.api.rows.json_values import Json, parsed
from streams.http.moments import rfc3339
from streams.serde.effect_scopes import full_action
from streams.serde.job_states import TERMINAL
from streams.serde.records import Job, LedgerEntry, Wait
from streams.serde.step_ids import shown_id

Gathers = Mapping[str, Mapping[str, int]]
"""How many jobs of each gather that a job waits for are in each state, by the gather's id."""
UNKNOWN: Gathers = MappingProxyType({})


def waits_json(job: Job, awaited: LedgerEntry | None, gathers: Gathers = UNKNOWN) -> list[Json]:
    """Return the open waits of a job, and the effect of another job that it waits for, if any.

    One that it only listens to has `parked` false.
    """
    waits = [] if job.status in TERMINAL else [_wait(wait, gathers) for wait in job.waits]
    return waits if awaited is None else [*waits, _effect(job, awaited)]


def told_of_effect(job: Job, awaited: LedgerEntry) -> str:
    """Return the effect of another job that a job waits for, for people."""
    return (
        f"effect {full_action(awaited.scope, awaited.action)} has been under way in job "
        f"{awaited.job_id} since {rfc3339(awaited.updated_at)}: it goes on when the outcome is "
        f"recorded, or asks again at {rfc3339(job.due_at)}"
    )


def told(job: Job, gathers: Gathers = UNKNOWN) -> str:
    """Return what a waiting job waits for, for people."""
    waits = [wait for wait in job.waits if wait.group >= 0]
    found = "; ".join(_told(wait, gathers) for wait in waits[:3])
    return found + (f"; and {len(waits) - 3} more" if len(waits) > 3 else "")


def _wait(wait: Wait, gathers: Gathers) -> Json:
    found: Json = {"kind": wait.kind, "name": wait.id}
    if wait.kind == "event":
        found["match"] = parsed(wait.match)
    if wait.kind == "job":
        found["job_id"] = wait.job_id
    if wait.kind == "approval":
        found["approval_id"] = wait.approval_id
    if wait.kind == "gather":
        made = gathers.get(wait.id, {})
        found |= {"count": wait.count, "made": sum(made.values()), "by_status": dict(made)}
    times = {"since": rfc3339(wait.at), "until": rfc3339(wait.until)}
    return found | times | {"parked": wait.group >= 0}


def _effect(job: Job, awaited: LedgerEntry) -> Json:
    return {
        "kind": "effect",
        "name": full_action(awaited.scope, awaited.action),
        "job_id": awaited.job_id,
        "since": rfc3339(awaited.updated_at),
        "until": rfc3339(job.due_at),
        "parked": True,
    }


def _told(wait: Wait, gathers: Gathers) -> str:
    name, until = shown_id(wait.id), rfc3339(wait.until)
    known = {
        "time": f"the time {until} ({name})",
        "event": f"an event that matches {wait.match} ({name})",
        "job": f"the end of job {wait.job_id} ({name})",
        "approval": f"a person's answer to approval {wait.approval_id} ({name})",
        "gather": f"jobs that it asked for ({name}){_so_far(wait, gathers)}",
    }
    what = known.get(wait.kind, name)  # a later release may have more kinds
    return what if until is None or wait.kind == "time" else f"{what}, until {until}"


def _so_far(wait: Wait, gathers: Gathers) -> str:
    """Return the numbers of a gather, as far as they are known."""
    made = gathers.get(wait.id)
    if made is None:
        return "" if wait.count is None else f", {wait.count:,} in all"
    ended = sum(number for status, number in made.items() if status in TERMINAL)
    count = "" if wait.count is None else f" of {wait.count:,}"
    return f": {sum(made.values()):,}{count} are made, {ended:,} of them have ended"
