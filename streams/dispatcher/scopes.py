"""The scopes that jobs share: which jobs may read the effects and steps of a scope.

The store `parts` keeps `s` scope job_id for a replay that works in another job's scope.
"""

from __future__ import annotations

from streams.dispatcher.step import Step
from streams.serde.ids import scope_owner
from streams.serde.keys import SEPARATOR, after, join
from streams.serde.records import Job

SHARED = b"s"


def in_scope(step: Step, scope: str) -> list[Job]:
    """Every job that works in a scope: its owner, and the replays that share it."""
    prefix = SHARED + join(scope) + SEPARATOR
    keys = [key for key, _ in step.store.range(prefix, after(prefix))]
    sharers = [key[len(prefix) :].decode() for key in keys]
    found = map(step.table.get, dict.fromkeys([scope_owner(scope), *sharers]))
    return [job for job in found if job is not None and job.scope == scope]


def share(step: Step, job: Job) -> None:
    """Note that a replay shares another job's scope: effects stay while either job is kept."""
    step.store.put(SHARED + join(job.scope, job.job_id), b"")


def leave(step: Step, job_id: str, scope: str) -> None:
    """Forget that a job worked in a scope."""
    if scope_owner(scope) != job_id:
        step.store.delete(SHARED + join(scope, job_id))
