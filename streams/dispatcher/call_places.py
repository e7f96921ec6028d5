"""Calls of tools and models under limits: each has its places from its claim to its end.

The places stand on the row of the job that calls (`limits/places.py`). So they are counted while
the job runs, come back with its row after a restart, and end with its lease. If there is no room,
the run ends, and the job waits with the places on its row: it is set aside by the bucket that is
full, starts once there is room, and has the places from its start.
"""

from __future__ import annotations

from dataclasses import replace

from streams.dispatcher import call_room
from streams.dispatcher.job import ready
from streams.dispatcher.routing import in_pool
from streams.dispatcher.spending import spend
from streams.dispatcher.step import Step
from streams.limits import places
from streams.limits.buckets import CIRCUIT, Bucket
from streams.serde.records import Job
from streams.topology.limits import Limit


def enter(
    step: Step, job: Job, claim_id: str, *, tool: str | None = None, model: str | None = None
) -> str | None:
    """Take the places of a call that is about to begin; if there is no room, return why not."""
    limited = step.shared.queue.limited
    buckets = call_room.counting(limited.caps, job.tenant_id, tool, model)
    if not buckets or places.has(job, claim_id):
        return None
    limited.caps.now = step.monotonic
    new = places.lacking(job, buckets)
    full = call_room.full(limited, buckets, new)
    if full is not None:
        return _told(limited.caps.buckets.limit(job.tenant_id, full.limit), full)
    spend(step, job.job_id, new)
    step.table.put(places.taken(job, buckets, claim_id))
    return None


def leave(step: Step, job: Job, claim_id: str) -> None:
    """Give back the places of a call that has ended, if it has any."""
    left = places.given_back(job, claim_id)
    if left is not job:
        step.table.put(left)


def await_room(step: Step, job: Job, tool: str | None, model: str | None) -> None:
    """Have a job wait for the places of its next call, without a slot, and without an attempt."""
    caps = step.shared.queue.limited.caps
    buckets = call_room.counting(caps, job.tenant_id, tool, model)
    waiting = replace(ready(job, step.now, uncount=True), limit_keys=places.awaited(job, buckets))
    step.table.put(in_pool(waiting, step.topology))


def _told(limit: Limit | None, bucket: Bucket) -> str:
    if limit is None:
        return f"tool {bucket.key!r} is paused"
    if bucket.limit == CIRCUIT:
        return f"the circuit of tool {bucket.key!r} is open, because its calls failed"
    cap = f"{limit.concurrency} at once" if limit.concurrency is not None else str(limit.rate)
    return f"limit {limit.name!r} has no room for a call of {limit.scope} {bucket.key!r} ({cap})"
