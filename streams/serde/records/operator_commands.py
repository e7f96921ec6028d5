"""The commands that the operator sends, for people and programs that call its API."""

from __future__ import annotations

from dataclasses import dataclass

from streams.serde.effect_scopes import JOB
from streams.serde.effect_states import SettledStatus
from streams.serde.records.approvals import Sealed
from streams.serde.records.command_kinds import sent_by
from streams.serde.records.schedules import ScheduleSpec


@sent_by("operator")
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


@sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class Replay:
    replay_of: str
    note: str
    fresh_scope: bool
    submitted_by: str | None
    again: bool = False
    repeat_effects: tuple[str, ...] = ()
    type: str | None = None
    input: str | None = None


@sent_by("operator")
@dataclass(frozen=True, slots=True)
class Cancel:
    reason: str
    submitted_by: str | None
    incarnation: int | None = None


@sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class Move:
    pool: str
    note: str
    submitted_by: str | None


@sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class Settle:
    action: str
    status: SettledStatus
    result: str | None
    note: str
    submitted_by: str | None
    once_per: str = JOB


@sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class SettleSteps:
    run_id: str
    keep: tuple[str, ...]
    drop: tuple[str, ...]
    note: str
    submitted_by: str | None


@sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class Reroute:
    fingerprint: bytes
    note: str
    submitted_by: str | None


@sent_by("operator")
@dataclass(frozen=True, slots=True)
class ReplayEvent:
    replay_id: str
    event: bytes
    type: str
    priority: str
    note: str
    submitted_by: str | None = None
    traceparent: str | None = None


@sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class Decide:
    approval_id: str
    decision_id: str
    approved: bool
    by: str
    note: str
    edit: Sealed | None = None
    edited: tuple[bytes, ...] = ()


@sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class SetSchedule:
    schedule_id: str
    spec: ScheduleSpec
    paused: bool | None
    note: str
    by: str
    expected: str | None = None


@sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class PauseSchedule:
    schedule_id: str
    paused: bool
    note: str
    by: str
    expected: str | None = None


@sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class DeleteSchedule:
    schedule_id: str
    by: str
    expected: str | None = None
