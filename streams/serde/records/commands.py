"""The commands on `jobs.commands`, and those that timers send.

A new command is a class in the module of its sender, its name in `CommandBody` (in the order of
`schemas/command.avsc`, which has its record), and its row in docs/flow.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from streams.serde.records.audit import Call
from streams.serde.records.command_kinds import KIND_OF, CommandKind, sent_by
from streams.serde.records.operator_commands import (
    Cancel,
    Decide,
    DeleteSchedule,
    Move,
    PauseSchedule,
    Replay,
    ReplayEvent,
    Reroute,
    SetSchedule,
    Settle,
    SettleSteps,
    Submit,
)
from streams.serde.records.worker_commands import (
    AddChildren,
    AskApproval,
    Checkpoint,
    Claim,
    ClaimStep,
    DeclareSchedules,
    Declined,
    Ended,
    Enqueue,
    Heartbeat,
    Listen,
    Outcome,
    ReadChildren,
    SealGather,
    StepFailed,
)


@sent_by("timer")
@dataclass(frozen=True, slots=True)
class Wake:
    incarnation: int
    epoch: int
    due_at: int


@sent_by("timer")
@dataclass(frozen=True, slots=True)
class WaitOver:
    incarnation: int
    due_at: int


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
    | ClaimStep
    | StepFailed
)


@dataclass(frozen=True, slots=True)
class Command:
    command_id: str
    tenant_id: str
    job_id: str
    epoch: int
    at: int
    body: CommandBody
    call: Call | None = None


COMMANDS = tuple(KIND_OF[body] for body in get_args(CommandBody))


def kind_of(command: Command) -> CommandKind:
    """The kind of a command."""
    return KIND_OF[type(command.body)]
