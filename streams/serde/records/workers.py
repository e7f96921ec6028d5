"""What a worker and the dispatcher tell each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streams.serde.effect_states import OutcomeStatus
from streams.serde.records.events import EventInfo, PayloadRef
from streams.serde.run_ends import ReportedEnd


@dataclass(frozen=True, slots=True)
class Lease:
    worker_id: str
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
    checkpoints: dict[str, str]
    traceparent: str | None
    heartbeat_id: str
    granted_at: int
    number: int
    alone: bool
    mac: bytes = b"\0" * 32


ReplyKind = Literal[
    "granted",
    "done",
    "held",
    "review",
    "refused",
    "lost",
    "cancel",
    "wanted",
    "who",
    "no_pool",
]
"""The first seven answer a claim or end a run. `wanted` asks for credits, `who` for a heartbeat,
and `no_pool` says that the worker's pool is not declared."""


@dataclass(frozen=True, slots=True)
class Reply:
    worker_id: str
    job_id: str
    epoch: int
    claim_id: str
    kind: ReplyKind
    idempotency_key: str = ""
    repeat: bool = False
    result: str | None = None
    message: str = ""


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


@dataclass(frozen=True, slots=True)
class Heartbeat:
    worker_id: str
    pool: str
    work_partition: int
    free: int
    leases: tuple[HeldLease, ...]
    handlers: tuple[Handler, ...]
    received: int
    leaving: bool


@dataclass(frozen=True, slots=True)
class Claim:
    worker_id: str
    reply_partition: int
    claim_id: str
    run_id: str
    action: str
    digest: bytes
    key_lifetime_ms: int


@dataclass(frozen=True, slots=True)
class Outcome:
    claim_id: str
    run_id: str
    action: str
    status: OutcomeStatus
    result: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    run_id: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Ended:
    worker_id: str
    run_id: str
    free: int
    status: ReportedEnd
    result: str | None
    error: str | None
    retry_after_seconds: float | None
    received: int
    traceback: str | None


@dataclass(frozen=True, slots=True)
class Declined:
    worker_id: str
    reason: Literal["full", "not_mine", "unknown_type", "bad_lease", "draining"]
    free: int
    detail: str
    received: int
