"""What people have paused: nothing of it starts, and what runs goes on.

A job's source does not follow from its tenant, pool and type. So a job that would start while its
source is paused gets a *mark*: a limit key under a name that no limit can have. The bucket of the
mark has no room while the pause lasts, and any afterwards. A call of a paused tool waits by such a
bucket, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeVar, get_args

from streams.limits.buckets import MARK, Bucket
from streams.serde.records import Job, LimitKey

Scope = Literal["tenant", "job_type", "pool", "source", "tool", "worker"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""A paused worker is drained: it is given no more leases. The roster of workers follows that."""
T = TypeVar("T")


class Paused:
    """The tenants, types, pools, sources and tools that are paused, as one partition knows them."""

    def __init__(self) -> None:
        self.tenants: set[str] = set()
        self.types: set[str] = set()
        self.pools: set[str] = set()
        self.buckets: set[Bucket] = set()
        """Buckets of marks that have no room."""

    def set(self, scope: Scope, value: str, is_paused: bool) -> None:
        """Note that something is paused, or no longer is."""
        match scope:
            case "tenant":
                _set(self.tenants, value, is_paused)
            case "job_type":
                _set(self.types, value, is_paused)
            case "pool":
                _set(self.pools, value, is_paused)
            case "source" | "tool":
                _set(self.buckets, bucket_of(scope, value), is_paused)

    def of_tool(self, tool: str | None) -> tuple[Bucket, ...]:
        """The bucket by which a call of a tool waits, if the tool is paused."""
        if tool is None or not self.buckets:
            return ()
        bucket = bucket_of("tool", tool)
        return (bucket,) if bucket in self.buckets else ()

    def marked(self, job: Job) -> Job:
        """The job with the mark by which it waits; equal if nothing of it is paused."""
        if not self.buckets or job.event is None:
            return job
        bucket = bucket_of("source", job.event.source)
        mark = LimitKey(bucket.limit, bucket.key)
        if bucket not in self.buckets or mark in job.limit_keys:
            return job
        return replace(job, limit_keys=(*job.limit_keys, mark))


def bucket_of(scope: Scope, value: str) -> Bucket:
    """The bucket of a mark."""
    return Bucket(f"{MARK}{scope}", "", value)


def without_marks(job: Job) -> Job:
    """The job without the marks by which its next call waited: the call is to ask again."""
    keys = tuple(k for k in job.limit_keys if k.call is None or not k.limit.startswith(MARK))
    return job if keys == job.limit_keys else replace(job, limit_keys=keys)


def _set(values: set[T], value: T, is_in: bool) -> None:
    values.add(value) if is_in else values.discard(value)
