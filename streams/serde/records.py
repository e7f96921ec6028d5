"""The values that travel on topics, one frozen dataclass for each Avro record.

Field names and meanings are documented in `schemas/*.avsc`; times are integer milliseconds since
the epoch in UTC, JSON travels as text. `tests/unit/serde/test_schemas.py` compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from streams.serde.effect_states import EffectStatus, OutcomeStatus, SettledStatus
from streams.serde.job_states import TERMINAL as TERMINAL  # noqa: PLC0414  for the dispatcher
from streams.serde.job_states import JobStatus as JobStatus  # noqa: PLC0414  for the dispatcher
from streams.serde.run_ends import AttemptKind, ReportedEnd

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
class PayloadRef:
    partition: int
    offsets: tuple[int, ...]
    size: int
    key_id: str


@dataclass(frozen=True, slots=True)
class EventInfo:
    event_id: str
    source: str
    event_type: str
    subject: str | None
    occurred_at: int | None
    received_at: int
    content_type: str
    delivery_id: str | None
    request_id: str | None
    dedup_key: str
    attributes: dict[str, str]


@dataclass(frozen=True, slots=True)
class Envelope:
    fingerprint: bytes
    event_id: str
    source: str
    tenant_id: str
    event_type: str
    occurred_at: int | None
    received_at: int
    payload_hash: bytes
    dedup_key: str
    subject: str | None
    content_type: str
    delivery_id: str | None
    request_id: str | None
    payload_ref: PayloadRef
    attributes: dict[str, str]
    priority: str
    callback_url: str | None = None
    routed: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run that did not succeed, in its job's history."""

    attempt: int
    at: int
    worker_id: str | None
    kind: AttemptKind
    error: str | None
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    job_id: str
    tenant_id: str
    incarnation: int
    type: str
    pool: str
    priority: str
    status: JobStatus
    scope: str
    attempts: int
    max_attempts: int
    backoff: tuple[float, ...]
    timeout_seconds: float
    epoch: int
    run_id: str | None
    worker_id: str | None
    event: EventInfo | None
    payload_ref: PayloadRef | None
    input: str
    request_hash: bytes | None
    event_time: int
    scheduled_at: int | None
    next_retry_at: int | None
    last_error: str | None
    result: str | None
    cancel_requested: bool
    workflow_id: str | None
    callback_url: str | None
    replay_of: str | None
    replay_note: str | None
    submitted_by: str | None
    traceparent: str | None
    created_at: int
    updated_at: int
    ready_at: int
    asked_timeout_seconds: float | None = None
    lost: int = 0
    lost_alone: int = 0
    cancel_reason: str | None = None
    asked_pool: str | None = None
    end_reason: str | None = None
    replayed_as: str | None = None
    history: tuple[Attempt, ...] = ()
    replay_id: str | None = None


@dataclass(frozen=True, slots=True)
class Submit:
    type: str
    input: str
    priority: str | None
    run_at: int | None
    timeout_seconds: float | None
    workflow_id: str | None
    callback_url: str | None
    submitted_by: str | None
    request_hash: bytes
    traceparent: str | None
    delay_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    replay_of: str
    note: str
    fresh_scope: bool
    submitted_by: str | None
    again: bool = False
    repeat_effects: tuple[str, ...] = ()
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    reason: str
    submitted_by: str | None
    incarnation: int | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    attempts: int
    due_at: int


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
    received: int = 0
    leaving: bool = False


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
    received: int = 0
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Declined:
    worker_id: str
    reason: Literal["full", "not_mine", "unknown_type", "bad_lease", "draining"]
    free: int
    detail: str
    received: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    pool: str
    note: str
    submitted_by: str | None


@dataclass(frozen=True, slots=True)
class Settle:
    action: str
    status: SettledStatus
    result: str | None
    note: str
    submitted_by: str | None


@dataclass(frozen=True, slots=True)
class Reroute:
    fingerprint: bytes
    note: str
    submitted_by: str | None


@dataclass(frozen=True, slots=True)
class ReplayEvent:
    replay_id: str
    event: bytes
    type: str
    priority: str
    note: str
    submitted_by: str | None = None
    traceparent: str | None = None


CommandBody = (
    Submit
    | Replay
    | Cancel
    | Wake
    | Heartbeat
    | Claim
    | Outcome
    | Checkpoint
    | Ended
    | Declined
    | Move
    | Settle
    | Reroute
    | ReplayEvent
)


@dataclass(frozen=True, slots=True)
class Command:
    command_id: str
    tenant_id: str
    job_id: str
    epoch: int
    at: int
    body: CommandBody


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
    number: int = 0
    alone: bool = False
    mac: bytes = b"\0" * 32


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
class LedgerEntry:
    tenant_id: str
    scope: str
    action: str
    status: EffectStatus
    job_id: str
    epoch: int
    run_id: str
    claim_id: str
    digest: bytes
    idempotency_key: str
    key_lifetime_ms: int
    claims: int
    first_claimed_at: int
    updated_at: int
    result: str | None
    error: str | None
    settled_by: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    schedule_id: str
    tenant_id: str
    due_at: int
    topic: str
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: str
    kind: Literal["job", "record"]
    tenant_id: str
    reason: str
    detail: str
    stage: str
    at: int
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    job_id: str | None = None
    type: str | None = None
    status: str | None = None
    attempts: int = 0
    traceparent: str | None = None
    timestamp: int | None = None
    headers: dict[str, bytes] = field(default_factory=dict)
    cut: bool = False
    replayed_at: int | None = None
    replayed_as: str | None = None
    replayed_by: str | None = None
    note: str | None = None
    discarded_at: int | None = None
    discarded_by: str | None = None
    discard_note: str | None = None
    replay_outcome: Literal["taken", "superseded", "failed"] | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """Jobs of one pool and type, in one partition, for which no lease can be made."""

    partition: int
    pool: str
    type: str
    tenant_id: str | None
    reason: Literal["no_worker", "no_pool", "no_topic", "tenant_disabled", "no_slot"]
    since: int
    jobs: int
    detail: str


@dataclass(frozen=True, slots=True)
class Progress:
    job_id: str
    tenant_id: str
    run_id: str
    at: int
    value: str


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key of a source: a sealed secret or a reference to one, and until when it verifies."""

    sealed: bytes | None = field(repr=False)
    reference: str | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class TenantRecord:
    tenant_id: str
    kind: Literal["tenant", "source", "endpoint", "data_key", "erasure"]
    id: str
    disabled: bool
    body: str
    secrets: tuple[bytes, ...] = field(default=(), repr=False)
    updated_at: int = 0
    keys: tuple[SigningKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Quarantined:
    event_id: str
    tenant_id: str
    source: str
    reason: str
    detail: str
    received_at: int
    payload_hash: bytes
    payload_ref: PayloadRef
    content_type: str
    request_id: str | None
    headers: dict[str, str]
    traceparent: str
    released_at: int | None = None
    note: str | None = None
    released_by: str | None = None
    job_id: str | None = None
    message_id: str | None = None
    signed_at: float | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    id: str
    tenant_id: str | None
    source: str | None
    reason: str
    count: int
    first_at: int
    last_at: int
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Duplicate:
    tenant_id: str
    count: int
    first_at: int
    last_at: int
    last_event_id: str | None
    source: str | None = None
    event_type: str | None = None


@dataclass(frozen=True, slots=True)
class RateReport:
    """One ingress process's demand, in deliveries a second, as it reports it to the others."""

    process: str
    demand: dict[str, float]
    leaving: bool
