"""The commands on `jobs.commands`: one class each, with what anyone asks about a command.

A new command is a class here, its name in `CommandBody` (in the order of `schemas/command.avsc`,
which has its record), and its row in docs/flow.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from streams.serde.effect_scopes import JOB
from streams.serde.effect_states import OutcomeStatus, SettledStatus
from streams.serde.records.approvals import ApprovalEffect, Approvers, OnTimeout, Sealed
from streams.serde.records.jobs import StepResult, Wait
from streams.serde.records.schedules import DeclaredSchedule, ScheduleSpec
from streams.serde.run_ends import ReportedEnd

T = TypeVar("T")
Sender = Literal["operator", "timer", "worker"]


@dataclass(frozen=True, slots=True)
class CommandKind:
    """One kind of command.

    The caller of one that `is_answered` is told of a refusal, so that the refusal's dead letter
    waits for nobody. One that is `of_a_moment` reports what held when it was sent: sent again
    later, it would make a worker look alive.
    """

    name: str
    sender: Sender
    is_answered: bool
    of_a_moment: bool


_BY_BODY: dict[type, CommandKind] = {}


def _sent_by(
    sender: Sender, *, is_answered: bool = False, of_a_moment: bool = False
) -> Callable[[type[T]], type[T]]:
    """Declare the kind of command that has this class as its body."""

    def declare(body: type[T]) -> type[T]:
        _BY_BODY[body] = CommandKind(body.__name__, sender, is_answered, of_a_moment)
        return body

    return declare


@_sent_by("operator")
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


@_sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class Replay:
    replay_of: str
    note: str
    fresh_scope: bool
    submitted_by: str | None
    again: bool = False
    repeat_effects: tuple[str, ...] = ()
    type: str | None = None


@_sent_by("operator")
@dataclass(frozen=True, slots=True)
class Cancel:
    reason: str
    submitted_by: str | None
    incarnation: int | None = None


@_sent_by("timer")
@dataclass(frozen=True, slots=True)
class Wake:
    incarnation: int
    epoch: int
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
    code: str | None = None


@_sent_by("worker", of_a_moment=True)
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


@_sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class Claim:
    worker_id: str
    reply_partition: int
    claim_id: str
    run_id: str
    action: str
    digest: bytes
    key_lifetime_ms: int
    once_per: str = JOB
    keep_ms: int = 0


@_sent_by("worker")
@dataclass(frozen=True, slots=True)
class Outcome:
    claim_id: str
    run_id: str
    action: str
    status: OutcomeStatus
    result: str | None
    error: str | None
    once_per: str = JOB


@_sent_by("worker")
@dataclass(frozen=True, slots=True)
class Checkpoint:
    run_id: str
    step: StepResult


@_sent_by("worker")
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
    diverged: str | None = None
    waits: tuple[Wait, ...] = ()


@_sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class Declined:
    worker_id: str
    reason: Literal["full", "not_mine", "unknown_type", "bad_lease", "draining"]
    free: int
    detail: str
    received: int


@_sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class Move:
    pool: str
    note: str
    submitted_by: str | None


@_sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class Settle:
    action: str
    status: SettledStatus
    result: str | None
    note: str
    submitted_by: str | None
    once_per: str = JOB


@_sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class SettleSteps:
    run_id: str
    keep: tuple[str, ...]
    drop: tuple[str, ...]
    note: str
    submitted_by: str | None


@_sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class Reroute:
    fingerprint: bytes
    note: str
    submitted_by: str | None


@_sent_by("operator")
@dataclass(frozen=True, slots=True)
class ReplayEvent:
    replay_id: str
    event: bytes
    type: str
    priority: str
    note: str
    submitted_by: str | None = None
    traceparent: str | None = None


@_sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class Listen:
    worker_id: str
    reply_partition: int
    claim_id: str
    run_id: str
    wait: Wait


@_sent_by("timer")
@dataclass(frozen=True, slots=True)
class WaitOver:
    incarnation: int
    due_at: int


@_sent_by("worker", of_a_moment=True)
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


@_sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class Decide:
    approval_id: str
    decision_id: str
    approved: bool
    by: str
    note: str
    edit: Sealed | None = None
    edited: tuple[bytes, ...] = ()


@_sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class SetSchedule:
    schedule_id: str
    spec: ScheduleSpec
    paused: bool | None
    note: str
    by: str


@_sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class PauseSchedule:
    schedule_id: str
    paused: bool
    note: str
    by: str


@_sent_by("operator", is_answered=True)
@dataclass(frozen=True, slots=True)
class DeleteSchedule:
    schedule_id: str
    by: str


@_sent_by("worker")
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


@_sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class Enqueue:
    worker_id: str
    reply_partition: int
    claim_id: str
    run_id: str
    left: StepResult
    child: ChildSpec


@_sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class SealGather:
    worker_id: str
    reply_partition: int
    claim_id: str
    run_id: str
    id: str
    digest: bytes
    count: int
    limit: int
    tolerated: int
    min_success: int


@_sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class AddChildren:
    run_id: str
    id: str
    first: int
    children: tuple[ChildSpec, ...]


@_sent_by("worker", of_a_moment=True)
@dataclass(frozen=True, slots=True)
class ReadChildren:
    worker_id: str
    reply_partition: int
    claim_id: str
    run_id: str
    job_ids: tuple[str, ...]


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
    | SettleSteps
    | Reroute
    | ReplayEvent
    | Listen
    | WaitOver
    | AskApproval
    | Decide
    | SetSchedule
    | PauseSchedule
    | DeleteSchedule
    | DeclareSchedules
    | Enqueue
    | SealGather
    | AddChildren
    | ReadChildren
)


@dataclass(frozen=True, slots=True)
class Command:
    command_id: str
    tenant_id: str
    job_id: str
    epoch: int
    at: int
    body: CommandBody


COMMANDS = tuple(_BY_BODY[body] for body in get_args(CommandBody))


def kind_of(command: Command) -> CommandKind:
    """The kind of a command."""
    return _BY_BODY[type(command.body)]
