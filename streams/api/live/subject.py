"""What a stream is about: one job, some jobs, or a workflow."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from streams.api.jobs import table as jobs
from streams.api.live.position import subject_digest
from streams.serde.records import Job, Workflow

Kind = Literal["jobs", "workflow"]

MOST_JOBS = 100
"""How many jobs one stream may name."""
MOST_MEMBERS = 1_000
"""Of so many jobs of a workflow a stream tells what they do; of all of them, how many there are."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The jobs of a stream, in order; those of a workflow are found as it goes on."""

    kind: Kind
    job_ids: tuple[str, ...]
    tenant_id: str = ""
    workflow_id: str = ""
    root_job_id: str = ""

    @property
    def digest(self) -> bytes:
        """What a position of this subject begins with."""
        if self.kind == "jobs":
            return subject_digest(self.kind, self.job_ids)
        return subject_digest(self.kind, [f"{self.tenant_id}/{self.workflow_id}"])

    @property
    def parts(self) -> int:
        """How many ends it has: one for each of its jobs, or the workflow's alone."""
        return len(self.job_ids) if self.kind == "jobs" else 1


def of_jobs(job_ids: Sequence[str]) -> Subject:
    """Return the subject of these jobs."""
    return Subject("jobs", tuple(sorted(set(job_ids))))


def of_workflow(workflow: Workflow) -> Subject:
    """Return the subject of a workflow."""
    return Subject("workflow", (), workflow.tenant_id, workflow.workflow_id, workflow.root_job_id)


def members(connection: sqlite3.Connection, about: Subject) -> tuple[str, ...]:
    """Return the jobs whose doings are told: of a workflow those that changed last."""
    if about.kind == "jobs":
        return about.job_ids
    rows = connection.execute(
        "SELECT job_id FROM jobs WHERE workflow_id = ? AND tenant_id = ? ORDER BY off DESC LIMIT ?",
        (about.workflow_id, about.tenant_id, MOST_MEMBERS),
    )
    found = {job_id for (job_id,) in rows}
    root = jobs.job(connection, about.root_job_id)
    if root is not None and _is_alone(root, about):
        found.add(root.job_id)
    return tuple(sorted(found))


def unknown(connection: sqlite3.Connection, about: Subject) -> tuple[str, ...]:
    """Return those of the named jobs that are not there."""
    look = "SELECT 1 FROM jobs WHERE job_id = ?"
    return tuple(i for i in about.job_ids if connection.execute(look, (i,)).fetchone() is None)


def _is_alone(root: Job, about: Subject) -> bool:
    """Whether the root has no children, so that its record names no workflow."""
    lives = root.workflow_id is None and root.own_workflow == about.workflow_id
    return lives and root.tenant_id == about.tenant_id
