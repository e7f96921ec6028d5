"""The places that a job has for calls of tools and models, among its limit keys.

A place is that of a claim, from the claim to the end of its call. A job that had to wait for room
has a place for its next call from its start. All places end with the lease.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streams.limits.buckets import Bucket
from streams.serde.records import Job, LimitKey

_NEXT_CALL = ""


def of_job_alone(keys: tuple[LimitKey, ...]) -> tuple[LimitKey, ...]:
    """The keys that count the job itself."""
    return tuple(key for key in keys if key.call is None)


def of_no_call(keys: tuple[LimitKey, ...]) -> tuple[LimitKey, ...]:
    """The keys that count the job itself, and its places for a call that it has not made."""
    return tuple(key for key in keys if not key.call)


def of_calls(keys: tuple[LimitKey, ...]) -> tuple[LimitKey, ...]:
    """The keys that are places of calls."""
    return tuple(key for key in keys if key.call is not None)


def has(job: Job, claim_id: str) -> bool:
    """Whether the call of a claim has places."""
    return any(key.call == claim_id for key in job.limit_keys)


def lacking(job: Job, buckets: Iterable[Bucket]) -> tuple[Bucket, ...]:
    """Those of a call's buckets in which the job has no place for its next call."""
    return tuple(bucket for bucket in buckets if _for_next(bucket) not in job.limit_keys)


def taken(job: Job, buckets: Iterable[Bucket], claim_id: str) -> Job:
    """The job with the places of a call, which takes those that are there for the next one."""
    wanted = [_for_next(bucket) for bucket in buckets]
    new = [key for key in wanted if key not in job.limit_keys]
    keys = (replace(k, call=claim_id) if k in wanted else k for k in job.limit_keys)
    return replace(job, limit_keys=(*keys, *(replace(key, call=claim_id) for key in new)))


def given_back(job: Job, claim_id: str) -> Job:
    """The job without the places of a call; the same one if it has none."""
    if not claim_id or not has(job, claim_id):
        return job
    return replace(job, limit_keys=tuple(k for k in job.limit_keys if k.call != claim_id))


def awaited(job: Job, buckets: Iterable[Bucket]) -> tuple[LimitKey, ...]:
    """The keys of a job that waits for places for its next call.

    Places that its run had and did not use are among them, so that in the end it has all at once.
    """
    unused = (key for key in job.limit_keys if key.call == _NEXT_CALL)
    wanted = dict.fromkeys([*unused, *map(_for_next, buckets)])
    return (*of_job_alone(job.limit_keys), *wanted)


def _for_next(bucket: Bucket) -> LimitKey:
    return LimitKey(bucket.limit, bucket.key, _NEXT_CALL)
