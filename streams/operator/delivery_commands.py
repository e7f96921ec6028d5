"""Commands to the delivery stage, and how their results are found."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from streams.operator.command_results import command_result, letter_ids
from streams.operator.http.app_state import SUBMITTED_BY, AppState
from streams.operator.resources.table import RowKey
from streams.process.wall_clock import wall_ms
from streams.serde.codec import DELIVERY_COMMAND
from streams.serde.delivery_records import CommandKind, DeliveryCommand

T = TypeVar("T")

_COMMANDS = "deliveries.commands"


def delivery_command(
    command_id: str, tenant_id: str, endpoint_id: str, kind: CommandKind, **fields: Any
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
        "submitted_by": SUBMITTED_BY,
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
    offset = await state.send_home(_COMMANDS, command.tenant_id, value)
    letters = letter_ids(state, command.tenant_id, offset, _COMMANDS)
    return await command_result(state, letters, row, shown)
