"""The commands on `jobs.commands`: one row each, with what anyone asks about a command.

A new command is a dataclass in `CommandBody` of `records`, its record in `schemas/command.avsc`,
its row here, and its row in docs/flow.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streams.serde.records import (
    Cancel,
    Checkpoint,
    Claim,
    Command,
    CommandBody,
    Declined,
    Ended,
    Heartbeat,
    Move,
    Outcome,
    Replay,
    ReplayEvent,
    Reroute,
    Settle,
    Submit,
    Wake,
)

Sender = Literal["operator", "timer", "worker"]


@dataclass(frozen=True, slots=True)
class CommandKind:
    """One kind of command, by the type of its body.

    `means` is its description in the schema. The caller of one that `is_answered` is told of a
    refusal, so that the refusal's dead letter waits for nobody. One that is `of_a_moment` reports
    what held when it was sent: sent again later, it would make a worker look alive.
    """

    body: type[CommandBody]
    sender: Sender
    means: str
    names_job: bool = True
    is_answered: bool = False
    of_a_moment: bool = False

    @property
    def name(self) -> str:
        return self.body.__name__


COMMANDS = (
    CommandKind(Submit, "operator", "a job submitted directly"),
    CommandKind(Replay, "operator", "a new job from a dead one", is_answered=True),
    CommandKind(Cancel, "operator", "end a job"),
    CommandKind(Wake, "timer", "a timer of the scheduler fired"),
    CommandKind(
        Heartbeat,
        "worker",
        "a worker is alive, on every partition of jobs.commands",
        names_job=False,
        of_a_moment=True,
    ),
    CommandKind(Claim, "worker", "may I begin this side effect?", of_a_moment=True),
    CommandKind(Outcome, "worker", "how the side effect ended"),
    CommandKind(Checkpoint, "worker", "a finished step"),
    CommandKind(Ended, "worker", "a run is over"),
    CommandKind(Declined, "worker", "a lease was not taken", of_a_moment=True),
    CommandKind(Move, "operator", "a job that waits goes to another pool", is_answered=True),
    CommandKind(
        Settle, "operator", "a person found out whether an effect happened", is_answered=True
    ),
    CommandKind(
        Reroute,
        "operator",
        "an event that had no route when it came gets its job",
        is_answered=True,
    ),
    CommandKind(
        ReplayEvent,
        "operator",
        "an event of the past gets a job of its own, by a replay of events",
    ),
)
"""In the order of the schema."""

_BY_BODY: dict[type[CommandBody], CommandKind] = {kind.body: kind for kind in COMMANDS}


def kind_of(command: Command) -> CommandKind:
    """The row of a command."""
    return _BY_BODY[type(command.body)]
