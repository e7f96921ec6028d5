"""Commands to the dispatcher and the delivery stage, and what these decide.

The stage answers each command by an entry of `audit`, in the transaction that carries the command
out or refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from streams.api.audit import table as audit
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.rows.json_values import Json
from streams.process.wall_clock import wall_ms
from streams.serde.codec import DELIVERY_COMMAND
from streams.serde.delivery_records import CommandKind, DeliveryCommand
from streams.serde.records import REFUSED, AuditEntry, CommandBody


@dataclass(frozen=True, slots=True)
class Decision:
    """A command that is durable; `entry` is what became of it, None if no stage has said so."""

    command_id: str
    entry: AuditEntry | None

    @property
    def is_known(self) -> bool:
        return self.entry is not None

    def json(self) -> Json:
        """Return what an answer says of it: `GET /v1/audit?command=ID` shows the entry later."""
        return {"command_id": self.command_id, "answered": self.is_known}


async def decided(
    state: AppState, tenant_id: str, job_id: str, body: CommandBody, *topics: str
) -> Decision:
    """Send a command; return once it is decided and the rows of these topics show what it did.

    The decision is not known if it takes longer than `SHOWN_WITHIN_SECONDS`.

    Raises:
        Refusal: 409 with the reason that the dispatcher gave.
        KafkaUnavailable: the command was not acknowledged; it may still be written.
    """
    command_id = await state.command(tenant_id, job_id, body)
    return await decision(state, tenant_id, command_id, *topics)


async def decided_delivery(state: AppState, command: DeliveryCommand, *topics: str) -> Decision:
    """Send a command to the delivery stage; otherwise as `decided`."""
    value = DELIVERY_COMMAND.encode(command)
    await state.send_home("deliveries.commands", command.tenant_id, value)
    return await decision(state, command.tenant_id, command.command_id, *topics)


async def first_decision(state: AppState, tenant_id: str, *topics: str) -> Decision | None:
    """Return what became of the call's one command if an earlier call sent it; None if unknown.

    Ask before anything else is looked at: what the command did may be a reason to refuse it now.

    Raises:
        Refusal: 409, it was refused; 503, the read model is late.
    """
    if state.command_id is None:
        return None
    await state.read_barrier((audit.TABLE.topic, state.home(tenant_id)))
    entry = await known_answer(state)
    return None if entry is None else await _told(state, tenant_id, entry, topics)


async def known_answer(state: AppState) -> AuditEntry | None:
    """Return the entry that answers the call's one command, if the read model shows it."""
    command_id = state.command_id
    if command_id is None:
        return None
    return await state.query(lambda db: audit.answer_to(db, command_id))


async def decision(state: AppState, tenant_id: str, command_id: str, *topics: str) -> Decision:
    """Wait for the decision about a command that was sent; raises what `decided` raises."""
    row = (audit.TABLE.name, (command_id,))
    entry = await state.wait_for(row, lambda db: audit.answer_to(db, command_id))
    if entry is None:
        return Decision(command_id, None)
    return await _told(state, tenant_id, entry, topics)


async def _told(
    state: AppState, tenant_id: str, entry: AuditEntry, topics: Sequence[str]
) -> Decision:
    require_done(entry)
    with suppress(Refusal):  # what was decided stands, also if its rows are late
        await state.read_barrier(*((topic, state.home(tenant_id)) for topic in topics))
    return Decision(entry.command_id or "", entry)


def require_done(entry: AuditEntry) -> None:
    """Check that a command was carried out.

    Raises:
        Refusal: 409, it was refused.
    """
    if entry.outcome == REFUSED:
        name = (entry.reason or "refused").replace("_", "-")
        raise Refusal(409, name, entry.detail or "", command_id=entry.command_id)


def delivery_command(
    state: AppState,
    command_id: str,
    tenant_id: str,
    endpoint_id: str,
    kind: CommandKind,
    **fields: Any,
) -> DeliveryCommand:
    """Return a command of whoever calls, sent now; `fields` are those of its kind."""
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
        "submitted_by": state.principal.id,
        "at": wall_ms(),
        "call": state.call,
    }
    return DeliveryCommand(**(given | fields))
