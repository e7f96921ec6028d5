"""The commands that workers send, about themselves and for the runs that they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streams.serde.effect_scopes import JOB
from streams.serde.effect_states import OutcomeStatus
from streams.serde.records.approvals import ApprovalEffect, Approvers, OnTimeout, Sealed
from streams.serde.records.command_kinds import sent_by
from streams.serde.records.jobs import StepResult, Wait
from streams.serde.records.schedules import DeclaredSchedule
from streams.serde.run_ends import ReportedEnd


@dataclass(frozen=True, slots=True)
class HeldLease:
    """`waits`: the run must run alone, and has not begun because other runs have not ended."""

    job_id: str
    epoch: int
    waits: bool


@dataclass(frozen=True, slots=True)
class Handler:
    type: str
    max_attempts: int
    backoff: tuple[float, ...]
    timeout_seconds: float
    code: str | None = None


@sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class Heartbeat:
    leases: tuple[HeldLease, ...]


@dataclass(frozen=True, slots=True)
class PolicyObjection:
    """What an application's policy says of an effect that it does not just allow."""

    policy: str
    decision: Literal["deny", "approve"]
    reason: str


@sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class Claim:
    claim_id: str
    run_id: str
    action: str
    digest: bytes
    key_lifetime_ms: int
    once_per: str = JOB
    keep_ms: int = 0
    model: str | None = None
    objection: PolicyObjection | None = None


@sent_by("worker")
@dataclass(frozen=True, slots=True)
class Outcome:
    claim_id: str
    run_id: str
    action: str
    status: OutcomeStatus
    result: str | None
    error: str | None
    once_per: str = JOB
    blames_tool: bool = False


@sent_by("worker")
@dataclass(frozen=True, slots=True)
class Checkpoint:
    run_id: str
    step: StepResult
    claim_id: str = ""


@sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class ClaimStep:
    claim_id: str
    run_id: str
    step: str
    model: str


@sent_by("worker")
@dataclass(frozen=True, slots=True)
class StepFailed:
    run_id: str
    claim_id: str


@sent_by("worker")
@dataclass(frozen=True, slots=True)
class Ended:
    run_id: str
    status: ReportedEnd
    result: str | None
    error: str | None
    retry_after_seconds: float | None
    traceback: str | None
    diverged: str | None = None
    waits: tuple[Wait, ...] = ()
    given: tuple[str, ...] = ()


@sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class Declined:
    detail: str


@sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class Listen:
    claim_id: str
    run_id: str
    wait: Wait


@sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class AskApproval:
    run_id: str
    key: str
    digest: bytes
    asked: Sealed
    effects: tuple[ApprovalEffect, ...]
    approvers: Approvers
    quorum: int
    on_timeout: OnTimeout
    timeout_ms: int | None = None
    objection: PolicyObjection | None = None


@sent_by("worker")
@dataclass(frozen=True, slots=True)
class DeclareSchedules:
    app: str
    schedules: tuple[DeclaredSchedule, ...]


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A job that a run asks for; `call` is the id of the call, and `input` JSON."""

    call: str
    type: str
    input: str
    digest: bytes
    priority: str | None = None
    delay_ms: int | None = None
    abandoned: bool = False
    traceparent: str | None = None


@sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class Enqueue:
    claim_id: str
    run_id: str
    left: StepResult
    child: ChildSpec


@sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class SealGather:
    claim_id: str
    run_id: str
    id: str
    digest: bytes
    count: int
    limit: int
    tolerated: int
    min_success: int


@sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class AddChildren:
    run_id: str
    id: str
    first: int
    children: tuple[ChildSpec, ...]


@sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class ReadChildren:
    claim_id: str
    run_id: str
    job_ids: tuple[str, ...]
