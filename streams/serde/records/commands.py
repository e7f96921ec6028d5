"""Commands on `jobs.commands`: those of people and timers, and the record of every command."""

from __future__ import annotations

from dataclasses import dataclass

from streams.serde.effect_states import SettledStatus
from streams.serde.records.workers import (
    Checkpoint,
    Claim,
    Declined,
    Ended,
    Heartbeat,
    Outcome,
)


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
    incarnation: int
    epoch: int
    due_at: int


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
