"""Workflows: the jobs below one root, or of one given id, counted."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Workflow:
    workflow_id: str
    tenant_id: str
    root_job_id: str
    root_type: str
    status: str
    jobs: dict[str, int] = field(default_factory=dict)
    kept: int = 0
    outcome: str | None = None
    error: str | None = None
    failed_job_id: str | None = None
    created_at: int = 0
    updated_at: int = 0
