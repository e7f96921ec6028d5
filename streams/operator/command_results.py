"""Finds the result of a command: the row that shows its effect, or the command's dead letter."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from streams.operator.http.app_state import AppState
from streams.operator.http.refusal import Refusal
from streams.operator.resources import dead_letters
from streams.operator.resources.table import RowKey
from streams.operator.turns import Asked, Subject
from streams.serde.records import CommandBody, DeadLetter

T = TypeVar("T")

_COMMANDS = "jobs.commands"


async def told(
    state: AppState,
    tenant_id: str,
    job_id: str,
    body: CommandBody,
    row: RowKey,
    shown: Callable[[sqlite3.Connection], T | None],
) -> T | None:
    """Send a command; returns what `shown` finds of its effect, None if the read model is late.

    Raises:
        Refusal: 409, for the reason that the dispatcher gave.
        KafkaUnavailable: the command was not acknowledged; it may still be written.
    """
    offset = await state.command(tenant_id, job_id, body)
    return await verdict(state, letters(state, tenant_id, offset), row, shown)


async def verdict(
    state: AppState,
    letter_ids: Sequence[str],
    row: RowKey,
    shown: Callable[[sqlite3.Connection], T | None],
) -> T | None:
    """The result of a durable command; see `told`."""

    def look(connection: sqlite3.Connection) -> tuple[T | None, DeadLetter | None] | None:
        found = shown(connection)
        refused = None if found is not None else refusing(connection, letter_ids)
        return None if found is None and refused is None else (found, refused)

    rows = [("dead_letters", (id_,)) for id_ in letter_ids]
    found, refused = await state.once(row, look, rows) or (None, None)
    if refused is not None:
        raise Refusal(409, refused.reason.replace("_", "-"), refused.detail, letter=refused.id)
    return found


def letters(state: AppState, tenant_id: str, offset: int) -> tuple[str, ...]:
    """Ids that the dead letter of a command can have."""
    home = state.home(tenant_id)
    readers = [s.name for s in state.topology.stages.values() if _COMMANDS in s.reads]
    return tuple(f"{name}:{_COMMANDS}:{home}:{offset}" for name in readers)


async def outstanding(state: AppState, subject: Subject) -> Asked | None:
    """The command that was sent before, unless the dispatcher has refused it."""
    asked = state.turns.asked(subject)
    if asked is None or await state.ask(lambda db: refusing(db, asked.letters)) is None:
        return asked
    state.turns.forget(subject)
    return None


def refusing(connection: sqlite3.Connection, letter_ids: Sequence[str]) -> DeadLetter | None:
    """The dead letter of a command, or None."""
    found = (dead_letters.dead_letter(connection, id_) for id_ in letter_ids)
    return next((letter for letter in found if letter is not None), None)
