"""Approvals: what a person is asked before a job goes on, and what was decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streams.serde.approval_states import ApprovalStatus

Approvers = Literal["any", "not_submitter"]
OnTimeout = Literal["reject", "raise"]


@dataclass(frozen=True, slots=True)
class Sealed:
    """JSON that only the tenant's key opens; see `streams.vault.sealed_json`."""

    key_id: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ApprovalEffect:
    """An effect that is asked for; `edited_digest` is that of arguments a person gave instead."""

    tool: str
    key: str
    digest: bytes
    edited_digest: bytes | None = None

    @property
    def action(self) -> str:
        """The name of the effect in the ledger."""
        return f"{self.tool}/{self.key}"


@dataclass(frozen=True, slots=True)
class Vote:
    """What one person decided."""

    decision_id: str
    approved: bool
    by: str
    at: int
    note: str


@dataclass(frozen=True, slots=True)
class Approval:
    approval_id: str
    tenant_id: str
    job_id: str
    job_type: str
    scope: str
    key: str
    status: ApprovalStatus
    digest: bytes
    asked: Sealed
    effects: tuple[ApprovalEffect, ...]
    edit: Sealed | None
    submitter: str | None
    approvers: Approvers
    quorum: int
    on_timeout: OnTimeout
    policy: str
    votes: tuple[Vote, ...]
    by: str | None
    note: str
    asked_at: int
    expires_at: int | None
    ended_at: int | None
    edit_digest: bytes | None = None
    traceparent: str | None = None
