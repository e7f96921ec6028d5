"""Why a job waits, as far as the read model knows: for its time, another job's effect or end,
a person, a worker, the end of a pause, a cap.

The jobs that fill a cap are counted here when somebody asks. If the dispatcher published them, each
lease would cost more. A tenant's jobs are all in one partition. The caps of other scopes hold over
all partitions or, if they are not shared, in each, and are counted so.
"""

from __future__ import annotations

from streams.api.jobs.held_table import held_reason
from streams.api.jobs.open_waits import told, told_of_effect
from streams.api.jobs.running import RunningJobs
from streams.api.jobs.view import JobDetails
from streams.api.pauses.paused import of_job, resume, sentence
from streams.api.remedy import Remedy, get, put
from streams.api.rows.json_values import Json
from streams.http.moments import rfc3339
from streams.limits.buckets import CIRCUIT, Bucket, Candidate
from streams.serde import job_states
from streams.serde.records import Held, Job
from streams.topology.limits import Limit, Scope
from streams.topology.model import Topology

_REVIEWS = Remedy("GET", "/v1/jobs?status=needs_review")
_WHOSE: dict[Scope, str] = {
    "tenant": " of tenant {!r}",
    "job_type": " of type {!r}",
    "pool": " of pool {!r}",
    "source": " of source {!r}",
    "key": " with the value {}",
    "tool": " of tool {!r}",
    "model": " of model {!r}",
}
"""How a message names the jobs or calls that a limit counts together."""


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
            return _waits("review", _for_review(job), since, remedy=_REVIEWS)
        case "outside":
            detail = f"it waits for {told(job, details.gathers)}"
            return _waits("outside", detail, since, remedy=_answer(job))
        case _:
            return None


def _for_review(job: Job) -> str:
    if job.diverged is not None:
        return "a person has to say which of its finished steps stay"
    return "a person has to say whether an effect was done"


def _answer(job: Job) -> Remedy | None:
    """The call that shows the first approval that a job waits for."""
    asked = (each.approval_id for each in job.waits if each.group >= 0)
    first = next(filter(None, asked), None)
    return None if first is None else get("approvals", first)


def _its_start(job: Job) -> tuple[str, str]:
    if job.queued_behind is not None:
        return "singleton", f"it starts once job {job.queued_behind} has ended (keep: queue_one)"
    what = "its next attempt starts" if job.next_retry_at else "it starts"
    return "scheduled", f"{what} at {rfc3339(job.due_at)}"


def _pending(running: RunningJobs, job: Job, held: Held | None, topology: Topology) -> Json:
    if (pause := of_job(running.pauses, job)) is not None:
        since = rfc3339(max(pause.at, job.ready_at))
        return _waits("paused", sentence(pause), since, remedy=resume(pause))
    reached, tool = _reached(running, job), _tried_tool(job, topology)
    caps = [_cap(running, limit, bucket, in_use) for limit, bucket, in_use in reached]
    if held is not None and (held.reason != "no_slot" or not (caps or tool)):
        enable = put("tenants", job.tenant_id).json()
        helps = enable if held.reason == "tenant_disabled" else None
        return {**held_reason(held), "caps": caps, "remedy": helps}
    since = rfc3339(job.ready_at)
    if caps:
        return _waits(
            "cap", "; ".join(_cap_detail(running, *each) for each in reached), since, caps
        )
    if tool is not None:
        return _waits("circuit", _circuit_detail(tool), since)
    detail = (
        f"no cap is reached, and the dispatcher reports nothing that is missing (after 10 s it "
        f"would): it starts when a worker of pool {job.pool!r} has a free slot and no job goes "
        "before it; its place among the waiting jobs is not known"
        f"{_rated(running, job)}{_kept(running, job)}"
    )
    return _waits("turn", detail, since)


def _waits(
    reason: str,
    detail: str,
    since: str | None = None,
    caps: list[Json] | None = None,
    remedy: Remedy | None = None,
) -> Json:
    helps = None if remedy is None else remedy.json()
    return {
        "reason": reason,
        "since": since,
        "detail": detail,
        "caps": caps or [],
        "remedy": helps,
    }


def _rated(running: RunningJobs, job: Job) -> str:
    """Which rates or permits a job may wait for; what there is of them the dispatcher knows."""
    limits, names = [limit for limit, _ in _limits(running, job)], running.shared
    rates = [f"{limit.name!r} ({limit.rate})" for limit in limits if limit.rate]
    shared = [f"{limit.name!r}" for limit in limits if limit.name in names]
    waits = [
        *([f"its turn under the rate of {', '.join(rates)}"] if rates else ()),
        *([f"a permit of {', '.join(shared)} from another partition"] if shared else ()),
    ]
    return f", and it may wait for {' or '.join(waits)}" if waits else ""


def _kept(running: RunningJobs, job: Job) -> str:
    """Under which limits the last place may be kept for another job; only the dispatcher knows."""
    in_use = running.beside(job)
    keys = tuple((each.limit, each.key) for each in job.limit_keys)
    buckets = running.buckets_of(job.tenant_id)
    own = buckets.of_job(Candidate(job.tenant_id, job.type, job.pool, keys))
    named = ((buckets.limit(bucket.tenant_id, bucket.limit), bucket) for bucket in own)
    names = [
        f"{limit.name!r}"
        for limit, bucket in named
        if limit is not None and limit.concurrency == in_use[bucket] + 1
    ]
    if not names:
        return ""
    return (
        f", and the last place under {', '.join(names)} may be kept for a job that has waited for "
        "places under several limits"
    )


def _limits(running: RunningJobs, job: Job) -> list[tuple[Limit, Bucket]]:
    """The limits that count a job, each with the bucket in which it does."""
    keys = tuple((each.limit, each.key) for each in job.limit_keys)
    buckets = running.buckets_of(job.tenant_id)
    found = buckets.all(Candidate(job.tenant_id, job.type, job.pool, keys))
    named = ((buckets.limit(bucket.tenant_id, bucket.limit), bucket) for bucket in found)
    return [(limit, bucket) for limit, bucket in named if limit is not None]


def _reached(running: RunningJobs, job: Job) -> list[tuple[Limit, Bucket, int]]:
    """The caps that let no further job like this one start, and what fills them, in order."""
    in_use = running.beside(job)
    return [
        (limit, bucket, in_use[bucket])
        for limit, bucket in _limits(running, job)
        if limit.concurrency is not None and in_use[bucket] >= limit.concurrency
    ]


def _is_of_tenant(limit: Limit) -> bool:
    """Whether a value of a limit is counted for one tenant, and is not the tenant itself."""
    return limit.is_local and limit.scope != "tenant"


def _cap(running: RunningJobs, limit: Limit, bucket: Bucket, in_use: int) -> Json:
    return {
        "limit": limit.name,
        "scope": limit.scope,
        "value": bucket.key or None,
        "per": "tenant" if _is_of_tenant(limit) else None,
        "in_use": in_use,
        "concurrency": limit.concurrency,
        "held_by": running.holders(bucket),
    }


def _tried_tool(job: Job, topology: Topology) -> str | None:
    """The tool whose circuit was open when the job's last run called it."""
    tools = (key.key for key in job.limit_keys if key.limit == CIRCUIT)
    return next(tools, None) if topology.breakers else None


def _circuit_detail(tool: str) -> str:
    return (
        f"calls of tool {tool!r} failed, so that its circuit breaker lets one at a time try it: "
        "this job starts when it is its turn, or when one of them is done"
    )


def _cap_detail(running: RunningJobs, limit: Limit, bucket: Bucket, in_use: int) -> str:
    whose = _WHOSE.get(limit.scope, "").format(bucket.key or None)
    if _is_of_tenant(limit):
        whose += " of its tenant"
    elif not limit.is_local and not limit.is_shared:
        whose += " in its partition"
    most, what = limit.concurrency, "call" if limit.counts_calls else "job"
    lets = f"one {what}{whose} run at a time" if most == 1 else f"{most} {what}s{whose} run at once"
    runs = "one runs" if in_use == 1 else f"{in_use} run"
    if holders := running.holders(bucket):
        runs += f" ({', '.join(holders)}{', ...' if in_use > len(holders) else ''})"
    ends = "it ends" if in_use == 1 else "there is room again"
    now = f"{runs}: this job starts when {ends}"
    return f"limit {limit.name!r} lets {lets}, and {now}; or raise the limit's concurrency"
