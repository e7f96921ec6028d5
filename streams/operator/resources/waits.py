"""Why a job waits, as far as the read model knows: for its time, another job's effect or end,
a person, a worker, a cap.

The jobs that fill a cap are counted here when somebody asks. If the dispatcher published them, each
lease would cost more. A tenant's jobs are all in one partition; the caps of other scopes hold per
partition, and are counted so.
"""

from __future__ import annotations

import sqlite3

from streams.fairness.limits import Concurrency
from streams.http.moments import rfc3339
from streams.operator.resources.held import held_reason
from streams.operator.resources.job_view import JobDetails
from streams.operator.resources.json_values import Json
from streams.operator.resources.open_waits import told, told_of_effect
from streams.operator.resources.table import status_in
from streams.serde import job_states
from streams.serde.records import Held, Job
from streams.topology.model import Limit, LimitScope, Topology

UNREAD: Json = {
    "reason": "unread",
    "since": None,
    "caps": [],
    "detail": "its command is written, and no dispatcher has read it yet: ask again",
}
"""Of a job whose command is durable, before the read model shows the job."""

_RUNS = f"SELECT count(*) FROM jobs WHERE {status_in(job_states.RUNNING)} AND "  # noqa: S608  constants
_OF: dict[LimitScope, str] = {
    "tenant": "tenant_id = ?",
    "job_type": "type = ? AND part = (SELECT part FROM jobs WHERE job_id = ?)",
    "global": "part = (SELECT part FROM jobs WHERE job_id = ?)",
}


class RunningJobs:
    """Counts of running jobs; each is counted once, however many jobs an answer has."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._counted: dict[tuple[str, str, str], int] = {}

    def under(self, limit: Limit, value: str, job: Job) -> int:
        """Return how many jobs run under a limit that also binds `job`."""
        # Jobs of a tenant are all in one partition.
        key = (limit.name, value, job.tenant_id)
        if key not in self._counted:
            self._counted[key] = self._count(limit, value, job)
        return self._counted[key]

    def _count(self, limit: Limit, value: str, job: Job) -> int:
        given: dict[LimitScope, tuple[str, ...]] = {
            "tenant": (value,),
            "job_type": (value, job.job_id),
            "global": (job.job_id,),
        }
        row: tuple[int] = self._connection.execute(
            _RUNS + _OF[limit.scope], given[limit.scope]
        ).fetchone()
        return row[0]


def waits_of(
    running: RunningJobs, job: Job, details: JobDetails, topology: Topology
) -> Json | None:
    """Return why a job waits; None if it runs or has ended."""
    state, since = job_states.BY_NAME.get(job.status), rfc3339(job.updated_at)
    if (awaited := details.awaited(job)) is not None:
        return _waits("effect", told_of_effect(job, awaited), rfc3339(awaited.updated_at))
    match state and state.waits_for:
        case "slot":
            return _pending(running, job, details.held, topology)
        case "time":
            return _waits(*_its_start(job), since)
        case "person":
            detail = "a person has to say whether an effect was done: see `tidegate jobs review`"
            return _waits("review", detail, since)
        case "outside":
            return _waits("outside", f"it waits for {told(job, details.gathers)}", since)
        case _:
            return None


def _its_start(job: Job) -> tuple[str, str]:
    if job.queued_behind is not None:
        return "singleton", f"it starts once job {job.queued_behind} has ended (keep: queue_one)"
    what = "its next attempt starts" if job.next_retry_at else "it starts"
    return "scheduled", f"{what} at {rfc3339(job.due_at)}"


def _pending(running: RunningJobs, job: Job, held: Held | None, topology: Topology) -> Json:
    caps = _reached(running, job, topology)
    if held is not None and (held.reason != "no_slot" or not caps):
        return {**held_reason(held), "caps": caps}
    since = rfc3339(job.ready_at)
    if caps:
        return _waits("cap", "; ".join(map(_cap_detail, caps)), since, caps)
    detail = (
        f"no cap is reached, and the dispatcher reports nothing that is missing (after 10 s it "
        f"would): it starts when a worker of pool {job.pool!r} has a free slot and no job goes "
        "before it; its place among the waiting jobs is not known"
    )
    return _waits("turn", detail, since)


def _waits(
    reason: str, detail: str, since: str | None = None, caps: list[Json] | None = None
) -> Json:
    return {"reason": reason, "since": since, "detail": detail, "caps": caps or []}


def _reached(running: RunningJobs, job: Job, topology: Topology) -> list[Json]:
    """Return the caps that let no further job like this one start, in the topology's order."""
    binding = Concurrency(topology.limits).binding(job.tenant_id, job.type)
    caps = [_cap(running, job, limit, value) for limit, value in binding]
    return [cap for cap in caps if cap["in_use"] >= cap["concurrency"]]


def _cap(running: RunningJobs, job: Job, limit: Limit, value: str) -> Json:
    return {
        "limit": limit.name,
        "scope": limit.scope,
        "value": value or None,
        "in_use": running.under(limit, value, job),
        "concurrency": limit.concurrency or 0,
    }


def _cap_detail(cap: Json) -> str:
    whose = {
        "tenant": f" of tenant {cap['value']!r}",
        "job_type": f" of type {cap['value']!r} in its partition",
        "global": " in its partition",
    }[cap["scope"]]
    most, in_use = cap["concurrency"], cap["in_use"]
    lets = f"one job{whose} run at a time" if most == 1 else f"{most} jobs{whose} run at once"
    runs = "one runs" if in_use == 1 else f"{in_use} run"
    ends = "it ends" if in_use == 1 else "there is room again"
    now = f"{runs}: this job starts when {ends}"
    return f"limit {cap['limit']!r} lets {lets}, and {now}; or raise the limit's concurrency"
