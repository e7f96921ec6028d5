"""Keeps what operators ask of the stage, on `deliveries.commands`, and applies it in its turn.

A command that a call of the API sent is answered by one entry of `audit`, in the transaction that
applies or refuses it; a refused one with a call leaves no dead letter.

The inputs have no common order: a command can be read before the setting of an endpoint that the
API had acknowledged before it. So a command is kept in the store, and applied once `tenants` is
read to the end that it had after the command was read.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import ClassVar, NamedTuple, get_args

import orjson
import structlog

from streams.audit import entries
from streams.audit.commands import DELIVERY_VERBS, Asked, asked_of_delivery
from streams.audit.stage_log import StageLog
from streams.delivery import messages
from streams.delivery.metrics import DECISIONS
from streams.delivery.part import Part
from streams.delivery.shared import Shared
from streams.delivery.step import Step
from streams.delivery.store import DeliveryStore
from streams.errors import PoisonRecord
from streams.runtime.part import handles, reads
from streams.runtime.processor import Record
from streams.serde.codec import DELIVERY_COMMAND
from streams.serde.delivery_records import RECOVER, RETRY, TEST, CommandKind, DeliveryCommand
from streams.serde.keys import after
from streams.serde.records import DONE, REFUSED, AuditEntry

log = structlog.get_logger(__name__)

_COMMAND, _AUDIT = b"W", b"z"
_KINDS = get_args(CommandKind)
_NUMBER = struct.Struct(">Q")
_AT_ONCE = 200
"""How many commands one part applies."""


class _Waiting(NamedTuple):
    """The commands that wait: `newest` is the key of the last one, `b""` if there is none.

    Those up to `last` are applied once `tenants` is read to its end as of `moment`.
    """

    newest: bytes = b""
    last: bytes = b""
    moment: float | None = None


def _after(command: DeliveryCommand) -> str | None:
    """What the audit shows of a recovery: which deliveries it takes, in milliseconds."""
    if command.kind != RECOVER:
        return None
    takes = {"since": command.since, "until": command.until, "statuses": command.statuses}
    return orjson.dumps(takes).decode()


class Commands(Part):
    """The commands of one partition, in their order; applies tests and retries itself."""

    keys: ClassVar = {
        _COMMAND: "commands that wait for the settings that preceded them",
        _AUDIT: "the chain of audit entries, and the commands that they answer",
    }

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._waiting = _Waiting()
        self._log = StageLog("delivery", shared.partition, _AUDIT)

    def restored(self, store: DeliveryStore) -> None:
        """Look for commands that wait."""
        self._waiting = _Waiting(max((key for key, _ in store.marked(_COMMAND)), default=b""))

    @reads("deliveries.commands")
    def take(self, step: Step, record: Record) -> None:
        """Keep a command until the settings that preceded it are read.

        Raises:
            PoisonRecord: it cannot be decoded, its kind is not known, or its ids cannot be used.
        """
        command = DELIVERY_COMMAND.decode(record.value)
        if command.kind not in _KINDS:
            raise PoisonRecord("not_supported", f"{command.kind!r} is none of: {', '.join(_KINDS)}")
        messages.check_ids(command.tenant_id, command.endpoint_id, command.command_id)
        key = _NUMBER.pack(step.store.next_order(0))
        step.store.queue.put(_COMMAND + key, DELIVERY_COMMAND.encode(command))
        self._wait(step, self._waiting._replace(newest=key))

    def tick(self, step: Step) -> None:
        """Apply the next commands whose settings are read."""
        newest, last, moment = self._waiting
        if not newest:
            return
        if moment is None:
            last, moment = newest, step.ctx.monotonic
            self._wait(step, _Waiting(newest, last, moment))
        if not step.ctx.caught_up_to("tenants", moment):
            return
        waiting = step.store.queue.range(_COMMAND, after(_COMMAND + last))
        part = list(islice(waiting, _AT_ONCE))
        for key, value in part:
            step.store.queue.delete(key)
            command = DELIVERY_COMMAND.decode(value)
            if command.kind in _KINDS:  # a later release may have kept another kind
                self._apply(step, command)
        if len(part) < _AT_ONCE:  # those that were read since then need another moment
            self._wait(step, _Waiting(newest if newest > last else b""))

    def rests(self, until: int) -> bool:
        """Whether no command waits for settings."""
        return not self._waiting.newest

    @handles(RETRY)
    def retry(self, step: Step, command: DeliveryCommand) -> None:
        """Send a row again, whatever became of it.

        Raises:
            PoisonRecord: the tenant has no such row.
        """
        row = step.rows.get(command.delivery_id or "")
        theirs = row is not None and row.tenant_id == command.tenant_id
        if row is None or not theirs:
            raise PoisonRecord("delivery_unknown", f"no delivery {command.delivery_id} to retry")
        if row.command_id == command.command_id:
            return
        endpoint = self.shared.endpoints.get(row.tenant_id, row.endpoint_id)
        step.drive_anew(row, command.command_id)
        if endpoint is None or endpoint.closed_because is not None:
            step.park_rows_of(row.tenant_id, row.endpoint_id)
        elif not row.is_test:  # a test does not wait for the circuit
            step.probe_now(endpoint, row.delivery_id)

    @handles(TEST)
    def test(self, step: Step, command: DeliveryCommand) -> None:
        """Send a sample to an endpoint.

        Raises:
            PoisonRecord: the tenant has no such endpoint.
        """
        id_ = command.delivery_id
        endpoint = self.shared.endpoints.get(command.tenant_id, command.endpoint_id)
        if endpoint is None or not id_ or "\0" in id_:
            raise PoisonRecord("endpoint_unknown", f"no endpoint {command.endpoint_id} to test")
        message = messages.of_test(command.tenant_id, id_, command.sample, step.now)
        step.enter_test(message, id_, endpoint)

    def refuse(self, step: Step, command: DeliveryCommand, poison: PoisonRecord) -> bool:
        """Answer a command that was refused; False if nobody waits for an answer."""
        asked = asked_of_delivery(command)
        if asked is None:
            return False
        if not self._log.has_answered(step.store.queue, command.command_id):
            why = {"reason": poison.reason, "detail": poison.detail}
            self._answer(step, entries.of_asked(asked, REFUSED, step.now, **why), asked)
        return True

    def _apply(self, step: Step, command: DeliveryCommand) -> None:
        """Have a command applied, and answer it; one that is read twice is decided once."""
        asked = asked_of_delivery(command)
        if asked and self._log.has_answered(step.store.queue, command.command_id):
            return
        try:
            step.apply(command)
        except PoisonRecord as poison:
            if not self.refuse(step, command, poison):
                log.info("a command is refused", kind=command.kind, detail=poison.detail)
            return
        if asked is not None:
            done = entries.of_asked(asked, DONE, step.now, after=_after(command))
            self._answer(step, done, asked)

    def _answer(self, step: Step, entry: AuditEntry, asked: Asked) -> None:
        # A record may name any kind, and each label's value is kept for ever.
        verb = entry.verb if entry.verb in DELIVERY_VERBS else "not_supported"
        DECISIONS.labels(verb, entry.outcome).inc()
        store, forward = step.store.queue, step.ctx.forward
        self._log.answer(store, forward, entry, asked.command_id, step.now)

    def _wait(self, step: Step, waiting: _Waiting) -> None:
        step.on_undo(setattr, self, "_waiting", self._waiting)
        self._waiting = waiting
