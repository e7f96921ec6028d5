"""The commands of workers that come over the link: what a worker sends counts as its own."""

from __future__ import annotations

import msgspec

from streams.dispatcher import names
from streams.dispatcher.step import Step
from streams.errors import PoisonRecord
from streams.runtime.link import LINK
from streams.runtime.processor import Record
from streams.serde.link import commands
from streams.serde.link.messages import Answer
from streams.serde.records import Command, Ended, Outcome, Reply
from streams.serde.run_ends import SUCCEEDED


class _Body(msgspec.Struct):
    claim_id: str = ""


class _Order(msgspec.Struct):
    """What an answer to an order names; the rest of it may be wrong."""

    number: int = 0
    job_id: str = ""
    epoch: int = 0
    body: _Body = msgspec.field(default_factory=_Body)


_READABLE = msgspec.json.Decoder(_Order)


def apply(step: Step, record: Record) -> None:
    """Apply the command in a record of the link.

    Raises:
        PoisonRecord: it is none, or it is refused; nothing of what it did may stay.
    """
    command = _command(record)
    names.check(command)
    step.apply(command, record.timestamp, sender=_sender(record))


def refuse(step: Step, record: Record, poison: PoisonRecord) -> None:
    """Tell a worker that its command is refused, and of which claim, where that can be read."""
    try:
        read = _READABLE.decode(record.value or b"")
    except (msgspec.MsgspecError, RecursionError):
        read = _Order()
    whose = read.job_id, read.epoch, read.body.claim_id
    reply = Reply(*whose, "refused", message=str(poison))
    step.say(_sender(record), Answer(record.partition, reply, read.number))


def may_wait(record: Record) -> bool:
    """Whether a command reports what no worker waits to have acknowledged.

    A heartbeat may not: it says what its worker has got over the connection that there is now.
    """
    if record.topic != LINK:
        return False
    try:
        body = _command(record).body
    except PoisonRecord:
        return False
    if isinstance(body, Ended):
        return body.status == SUCCEEDED
    return isinstance(body, Outcome)


def _command(record: Record) -> Command:
    return commands.command(record.value, record.timestamp)


def _sender(record: Record) -> str:
    return (record.key or b"").decode()
