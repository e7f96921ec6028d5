"""Workflows: counts the jobs of each workflow by their states, beside the queue.

The store `workflows` has one record for each, whose size does not depend on the number of its jobs.
The public topic `workflows` is its changelog. A record follows the rows of jobs as these are
written, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streams.dispatcher.part import Part, RowChange
from streams.runtime.processor import Context
from streams.serde.codec import WORKFLOW
from streams.serde.job_states import IN_DEAD_LETTERS, LIVE, TERMINAL
from streams.serde.keys import workflow_key
from streams.serde.records import Job, Workflow

RUNNING = "running"
"""The status of a workflow of which a job has not ended."""


class Workflows(Part):
    """The workflows of one partition."""

    def written(self, ctx: Context, changes: Sequence[RowChange]) -> None:
        store = ctx.store("workflows")
        known: dict[bytes, Workflow | None] = {}
        for place, before, after in _moves(changes):
            if place not in known:
                value = store.get(place)
                known[place] = None if value is None else WORKFLOW.decode(value)
            known[place] = _followed(known[place], before, after)
        for place, workflow in known.items():
            if workflow is None:
                store.delete(place)
            else:
                store.put(place, WORKFLOW.encode(workflow))


def _moves(changes: Sequence[RowChange]) -> list[tuple[bytes, Job | None, Job | None]]:
    """What each workflow has to follow; a job that changes its workflow leaves the former one."""
    found: list[tuple[bytes, Job | None, Job | None]] = []
    for before, after in changes:
        old, new = _place(before), _place(after)
        if old is not None and old == new:
            if before is not None and after is not None and before.status != after.status:
                found.append((old, before, after))
            continue
        if old is not None:
            found.append((old, before, None))
        if new is not None:
            found.append((new, None, after))
    return found


def _place(job: Job | None) -> bytes | None:
    if job is None or job.workflow_id is None:
        return None
    return workflow_key(job.tenant_id, job.workflow_id)


def _followed(known: Workflow | None, before: Job | None, after: Job | None) -> Workflow | None:
    """A workflow after a change of one of its jobs; None if none of them is kept any more."""
    if after is None:
        kept = 0 if known is None else known.kept - 1
        return replace(known, kept=kept) if known is not None and kept > 0 else None
    known = known or _begun(after)
    jobs = dict(known.jobs)
    if before is not None:
        jobs[before.status] = jobs.get(before.status, 0) - 1
    jobs[after.status] = jobs.get(after.status, 0) + 1
    jobs = {status: number for status, number in jobs.items() if number > 0}
    known = replace(known, jobs=jobs, updated_at=max(known.updated_at, after.updated_at))
    if before is None:
        known = replace(known, kept=known.kept + 1)
    return _with_end(known, after)


def _begun(root: Job) -> Workflow:
    return Workflow(
        root.workflow_id or "",
        root.tenant_id,
        root.job_id,
        root.type,
        RUNNING,
        created_at=root.created_at,
    )


def _with_end(known: Workflow, job: Job) -> Workflow:
    if job.status in TERMINAL and not job.depth:
        known = replace(known, outcome=job.status)
    if job.status in IN_DEAD_LETTERS:
        known = replace(known, error=job.last_error, failed_job_id=job.job_id)
    is_live = any(status in LIVE for status in known.jobs)
    return replace(known, status=RUNNING if is_live else known.outcome or job.status)
