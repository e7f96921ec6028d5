"""Spends tokens of rates; what was spent is kept in the transaction of the step that spends it."""

from __future__ import annotations

from collections.abc import Iterable

from streams.dispatcher import limit_rows
from streams.dispatcher.step import Step
from streams.limits.buckets import Bucket


def spend(step: Step, buckets: Iterable[Bucket]) -> None:
    """Take a token of each of these buckets that has a rate."""
    for bucket, arrival in step.shared.queue.limited.spend(buckets, step.on_undo):
        ahead = round((arrival - step.monotonic) * 1000)
        limit_rows.put(step.store, bucket, step.now + ahead)
