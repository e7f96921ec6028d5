"""Spends tokens of rates; what was spent is kept in the transaction of the step that spends it."""

from __future__ import annotations

from collections.abc import Iterable

from streams.dispatcher import limit_rows
from streams.dispatcher.step import Step
from streams.limits.buckets import Bucket


def spend(step: Step, job_id: str, buckets: Iterable[Bucket]) -> None:
    """Take a token of each of these buckets that has a rate, for a job."""
    _keep(step, step.shared.queue.limited.tokens.spend(job_id, buckets, step.on_undo))


def give_back(step: Step, job_id: str, buckets: Iterable[Bucket]) -> None:
    """Give the tokens back that a job took, because it does not start after all."""
    _keep(step, step.shared.queue.limited.tokens.give_back(job_id, buckets, step.on_undo))


def _keep(step: Step, arrivals: Iterable[tuple[Bucket, float]]) -> None:
    for bucket, arrival in arrivals:
        ahead = round((arrival - step.monotonic) * 1000)
        limit_rows.put(step.store, bucket, step.now + ahead)
