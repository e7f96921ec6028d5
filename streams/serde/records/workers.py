"""What the dispatcher sends to workers; what they send to it are commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streams.serde.records.events import BatchedEvent, EventInfo, PayloadRef
from streams.serde.records.jobs import StepResult


@dataclass(frozen=True, slots=True)
class Lease:
    job_id: str
    epoch: int
    run_id: str
    tenant_id: str
    scope: str
    type: str
    incarnation: int
    attempt: int
    max_attempts: int
    timeout_seconds: float
    term_seconds: float
    home_partition: int
    event: EventInfo | None
    payload_ref: PayloadRef | None
    input: str
    workflow_id: str | None
    steps: tuple[StepResult, ...]
    traceparent: str | None
    granted_at: int
    alone: bool
    schedule_id: str | None = None
    scheduled_for: int | None = None
    events: tuple[BatchedEvent, ...] = ()
    principal: str = "unknown"


ReplyKind = Literal[
    "granted",
    "done",
    "held",
    "busy",
    "full",
    "review",
    "refused",
    "lost",
    "cancel",
    "listening",
    "approval",
    "denied",
    "made",
    "conflict",
]
"""Each answers what a run asks for; `lost` and `cancel` also end a run that asks for nothing."""


@dataclass(frozen=True, slots=True)
class Reply:
    job_id: str
    epoch: int
    claim_id: str
    kind: ReplyKind
    idempotency_key: str = ""
    repeat: bool = False
    result: str | None = None
    message: str = ""
    run_id: str = ""
