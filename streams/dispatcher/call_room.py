"""Whether there is room for a call of a tool or a model in one partition.

A call is counted by the limits of its tool and of its model. While its tool is paused, or the
circuit of the tool is not closed, a bucket of these counts it, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from streams.dispatcher.limited import Limited
from streams.limits.buckets import CIRCUIT, Bucket
from streams.limits.caps import Caps


def counting(caps: Caps, tenant_id: str, tool: str | None, model: str | None) -> tuple[Bucket, ...]:
    """The buckets that count a call."""
    found = caps.buckets.of_call(tenant_id, tool, model)
    return (*caps.paused.of_tool(tool), *found, *caps.circuits.bucket(tool))


def full(limited: Limited, buckets: Iterable[Bucket], new: Collection[Bucket]) -> Bucket | None:
    """The first of a call's buckets that has no room for it, or has jobs that wait for room.

    The call has a place already in those that are not `new`.
    """
    for bucket in buckets:
        if bucket in new:
            if limited.aside.has(bucket) or limited.caps.full((bucket,)) is not None:
                return bucket
        elif bucket.limit == CIRCUIT and _is_tried(limited.caps, bucket):
            return bucket
    return None


def _is_tried(caps: Caps, bucket: Bucket) -> bool:
    """Whether another call tries the tool of a circuit, or none may.

    The place that a call has there may be from before the circuit opened, or closed.
    """
    others = caps.running(bucket) - 1
    return caps.circuits.room(bucket, others, caps.now) < 1
