"""Decides which dead records can be sent in again, and why the others cannot."""

from __future__ import annotations

from dataclasses import dataclass

from streams.api import STAGE
from streams.dead_letter import is_manual, is_replayed
from streams.errors import DecodeError
from streams.serde.codec import COMMAND
from streams.serde.keys import holds_secret
from streams.serde.records import DeadLetter
from streams.serde.records.commands import kind_of
from streams.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a record cannot be sent in again: the stable name of a problem, and its detail."""

    name: str
    detail: str


def unfit(letter: DeadLetter, topology: Topology, again: bool) -> Unfit | None:
    """Return the reason against a replay."""
    done = _done(letter, again)
    if done is not None:
        return Unfit("already-replayed", f"{letter.id} {done}")
    if (manual := by_hand(letter, again)) is not None:
        return manual
    reason = _unplaced(letter, topology) or _incomplete(letter) or _pointless(letter)
    return None if reason is None else Unfit("not-replayable", f"{letter.id}: {reason}")


def by_hand(letter: DeadLetter, again: bool) -> Unfit | None:
    """Return the reason against a replay of what a person does by hand, or has done."""
    if again or not (is_manual(letter) or letter.done_at is not None):
        return None
    who = letter.done_by or letter.assignee or letter.manual_by
    doing = "is manual work of" if letter.done_at is None else "was done by hand by"
    hint = "to do it twice, replay it alone with `again` (`--again`)"
    return Unfit("by-hand", f"{letter.id} {doing} {who}: {hint}")


def _done(letter: DeadLetter, again: bool) -> str | None:
    if not is_replayed(letter):
        return None
    if letter.replay_outcome is not None:
        return f"was sent in again before and is {letter.replay_outcome}: nothing is left to do"
    hint = "to send it once more, replay it alone with `again` (`--again`)"
    return None if again else f"was sent in again before: {hint}"


def _unplaced(letter: DeadLetter, topology: Topology) -> str | None:
    stage, topic = topology.stages.get(letter.stage), letter.topic or ""
    if letter.stage == STAGE:
        return (
            "the operator's read model left the record out: stop the operator, remove `operator` "
            "from its data directory and start it, and it reads every topic again"
        )
    if stage is None or topology.letter_input(letter.stage) is None:
        return (
            f"{letter.stage} has no input of its own that a record can be sent into again: its "
            "author must write the record again"
        )
    if topic not in stage.reads:
        return f"{letter.stage} does not read {topic} now: see `tidegate topology describe`"
    partitions = topology.topics[topic].partitions
    if letter.partition is None or not 0 <= letter.partition < partitions:
        return f"{topic} has no partition {letter.partition}: it has {partitions}"
    return None


def _incomplete(letter: DeadLetter) -> str | None:
    kept = letter.value is not None or letter.cut
    if kept and letter.topic == "tenants" and holds_secret(letter.key or b""):
        return "a letter holds no secret, nor sends one: write the source or endpoint again (PUT)"
    if letter.cut:
        return "its letter does not hold the whole record: its author must write it again"
    return None


def _pointless(letter: DeadLetter) -> str | None:
    if letter.topic != "jobs.commands":
        return None
    try:
        kind = kind_of(COMMAND.decode(letter.value))
    except DecodeError:
        return None  # The stage may be newer than this process.
    if kind.of_a_moment:
        return f"a worker's {kind.name} reports a past moment: workers report again by themselves"
    if kind.is_answered:
        return f"an operator's {kind.name}: ask for it again with its own call"
    return None
