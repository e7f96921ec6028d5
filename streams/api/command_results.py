"""Commands to the dispatcher and the delivery stage, and the result of each.

The result is the row that shows the effect of a command, or the command's dead letter.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from streams.api.dead_letters import table as dead_letters
from streams.api.dead_letters.discards import answered
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.rows.table import RowKey
from streams.api.sent_commands import SentCommand, Subject
from streams.process.wall_clock import wall_ms
from streams.serde.codec import DELIVERY_COMMAND
from streams.serde.delivery_records import CommandKind, DeliveryCommand
from streams.serde.records import CommandBody, DeadLetter

T = TypeVar("T")

_COMMANDS, _OF_DELIVERIES = "jobs.commands", "deliveries.commands"


async def run_command(
    state: AppState,
    tenant_id: str,
    job_id: str,
    body: CommandBody,
    row: RowKey,
    shown: Callable[[sqlite3.Connection], T | None],
) -> T | None:
    """Send a command and return what `shown` finds of its effect; None if the read model is late.

    Raises:
        Refusal: 409 with the reason that the dispatcher gave.
        KafkaUnavailable: the command was not acknowledged; it may still be written.
    """
    offset = await state.command(tenant_id, job_id, body)
    return await command_result(state, letter_ids(state, tenant_id, offset), row, shown)


async def command_result(
    state: AppState,
    letters: Sequence[str],
    row: RowKey,
    shown: Callable[[sqlite3.Connection], T | None],
) -> T | None:
    """Return what `run_command` returns, for a command whose dead letter has one of `letters`.

    A refusal that is answered here needs nobody any more, so its letter is discarded.
    """

    def look(connection: sqlite3.Connection) -> tuple[T | None, DeadLetter | None] | None:
        found = shown(connection)
        refused = None if found is not None else refusal_letter(connection, letters)
        return None if found is None and refused is None else (found, refused)

    rows = [("dead_letters", (id_,)) for id_ in letters]
    found, refused = await state.wait_for(row, look, rows) or (None, None)
    if refused is not None:
        await answered(state, refused)
        raise Refusal(409, refused.reason.replace("_", "-"), refused.detail, letter=refused.id)
    return found


def letter_ids(
    state: AppState, tenant_id: str, offset: int, topic: str = _COMMANDS
) -> tuple[str, ...]:
    """Return the ids that the dead letter of a command can have."""
    home = state.home(tenant_id)
    readers = [s.name for s in state.topology.stages.values() if topic in s.reads]
    return tuple(f"{name}:{topic}:{home}:{offset}" for name in readers)


async def outstanding(state: AppState, subject: Subject) -> SentCommand | None:
    """Return the command that was sent before, unless the dispatcher has refused it."""
    sent = state.sent_commands.last(subject)
    if sent is None or await state.query(lambda db: refusal_letter(db, sent.letters)) is None:
        return sent
    state.sent_commands.forget(subject)
    return None


def refusal_letter(connection: sqlite3.Connection, ids: Sequence[str]) -> DeadLetter | None:
    found = (dead_letters.dead_letter(connection, id_) for id_ in ids)
    return next((letter for letter in found if letter is not None), None)


def delivery_command(
    by: str, command_id: str, tenant_id: str, endpoint_id: str, kind: CommandKind, **fields: Any
) -> DeliveryCommand:
    """Return a command of the operator, sent now; `fields` are those of its kind."""
    given: dict[str, Any] = {
        "delivery_id": None,
        "since": None,
        "until": None,
        "statuses": (),
        "sample": None,
        "command_id": command_id,
        "tenant_id": tenant_id,
        "endpoint_id": endpoint_id,
        "kind": kind,
        "submitted_by": by,
        "at": wall_ms(),
    }
    return DeliveryCommand(**(given | fields))


async def run_delivery_command(
    state: AppState,
    command: DeliveryCommand,
    row: RowKey,
    shown: Callable[[sqlite3.Connection], T | None],
) -> T | None:
    """Send a command and return what `shown` finds of its effect; None if the stage is late.

    Raises:
        Refusal: 409 with the reason that the stage gave.
        KafkaUnavailable: the command was not acknowledged; it may still be written.
    """
    value = DELIVERY_COMMAND.encode(command)
    offset = await state.send_home(_OF_DELIVERIES, command.tenant_id, value)
    letters = letter_ids(state, command.tenant_id, offset, _OF_DELIVERIES)
    return await command_result(state, letters, row, shown)
