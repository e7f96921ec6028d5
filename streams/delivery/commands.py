"""What operators ask of the stage, read from `deliveries.commands`.

The inputs have no common order: a command can be read before the setting of an endpoint that the
API had acknowledged before it. So a command is kept in the store, and carried out once `tenants` is
read to the end that it had after the command was read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import structlog

from streams.delivery import messages
from streams.delivery.endpoint import Endpoint
from streams.delivery.history import SLACK_MS
from streams.delivery.store import COMMAND, EARLY_CALLBACK, RECOVERY, DeliveryStore
from streams.delivery.transitions import Transitions
from streams.delivery.upkeep import recovery_key
from streams.errors import PoisonRecord
from streams.serde.codec import DELIVERY_COMMAND
from streams.serde.delivery_records import RECOVER, RETRY, TEST, CommandKind, DeliveryCommand
from streams.serde.delivery_states import PARKED
from streams.serde.keys import after

log = structlog.get_logger(__name__)

_NUMBER = struct.Struct(">Q")
_AT_ONCE = 200
"""How many commands one part carries out."""


class Commands:
    """The commands of one partition, in their order."""

    def __init__(self) -> None:
        self._newest = b""
        self._last = b""  # the last command that was read before the moment
        self._moment: float | None = None  # `tenants` is read to its end as of this time

    def restored(self, store: DeliveryStore) -> None:
        """Look for commands that wait, after a start or a rollback."""
        self._newest = max((key for key, _ in store.marked(COMMAND)), default=b"")
        self._moment = None

    def take(self, value: bytes | None, steps: Transitions) -> None:
        """Keep a command until the settings that preceded it are read.

        Raises:
            PoisonRecord: it cannot be decoded, its kind is not known, or its ids cannot be used.
        """
        command = DELIVERY_COMMAND.decode(value)
        if command.kind not in _ACTS:
            raise PoisonRecord("not_supported", f"{command.kind!r} is none of: {', '.join(_ACTS)}")
        messages.check_ids(command.tenant_id, command.endpoint_id, command.command_id)
        self._newest = _NUMBER.pack(steps.store.next_order())
        steps.store.queue.put(COMMAND + self._newest, DELIVERY_COMMAND.encode(command))

    def go_on(self, steps: Transitions) -> bool:
        """Carry out the next commands whose settings are read; returns whether there were any."""
        if not self._newest:
            return False
        if self._moment is None:
            self._moment, self._last = steps.store.ctx.monotonic, self._newest
        if not steps.store.ctx.caught_up_to("tenants", self._moment):
            return False
        waiting = steps.store.queue.range(COMMAND, after(COMMAND + self._last))
        part = list(islice(waiting, _AT_ONCE))
        for key, value in part:
            steps.store.queue.delete(key)
            command = DELIVERY_COMMAND.decode(value)
            if act := _ACTS.get(command.kind):  # a later release may have kept another kind
                act(command, steps)
        if len(part) < _AT_ONCE:  # those that were read since then need another moment
            self._newest = self._newest if self._newest > self._last else b""
            self._moment = None
        return bool(part)


def recover_callbacks(endpoint: Endpoint, steps: Transitions) -> None:
    """Recover the callbacks that were read before the setting that preceded them.

    Rows have a lower bound of the broker's time, so one may seem older than the setting.
    """
    early = EARLY_CALLBACK + endpoint.tenant_id.encode()
    if steps.store.queue.get(early) is None:
        return
    steps.store.queue.delete(early)
    command = DeliveryCommand(
        f"cmd_callbacks_{endpoint.since}",
        endpoint.tenant_id,
        endpoint.id,
        RECOVER,
        None,
        max(0, endpoint.since - SLACK_MS),
        steps.now + 1,
        (PARKED,),
        None,
        None,
        steps.now,
    )
    steps.store.queue.put(RECOVERY + recovery_key(command), DELIVERY_COMMAND.encode(command))


def _retry(command: DeliveryCommand, steps: Transitions) -> None:
    row = steps.store.row(command.delivery_id or "")
    if row is None or row.tenant_id != command.tenant_id or row.command_id == command.command_id:
        log.info("no delivery to retry", delivery_id=command.delivery_id)
        return
    endpoint = steps.endpoints.get(row.tenant_id, row.endpoint_id)
    steps.drive_anew(row, command.command_id)
    if endpoint is None or endpoint.closed_because is not None:
        steps.park_rows_of(row.tenant_id, row.endpoint_id)
    elif not row.is_test:  # a test does not wait for the circuit
        steps.probe_now(endpoint, row.delivery_id)


def _test(command: DeliveryCommand, steps: Transitions) -> None:
    endpoint = steps.endpoints.get(command.tenant_id, command.endpoint_id)
    if endpoint is None or not command.delivery_id or "\0" in command.delivery_id:
        log.info("no endpoint to test", endpoint_id=command.endpoint_id)
        return
    id_ = command.delivery_id
    message = messages.of_test(command.tenant_id, id_, command.sample, steps.now)
    steps.enter_test(message, id_, endpoint)


def _recover(command: DeliveryCommand, steps: Transitions) -> None:
    endpoint = steps.endpoints.get(command.tenant_id, command.endpoint_id)
    place = command.tenant_id, command.endpoint_id
    if endpoint is None or endpoint.closed_because is not None:
        log.info("no endpoint to recover", endpoint_id=command.endpoint_id)
        return
    if steps.store.asked_before(*place, command.command_id, steps.rules.keep_ms):
        return
    # Rows have the broker's time, so a recovery without an end takes the rows of now by that clock.
    command = replace(command, at=steps.now + 1)
    steps.store.queue.put(RECOVERY + recovery_key(command), DELIVERY_COMMAND.encode(command))


_ACTS: dict[CommandKind, Callable[[DeliveryCommand, Transitions], None]] = {
    RETRY: _retry,
    RECOVER: _recover,
    TEST: _test,
}
"""What carries out each kind of command; one that comes again, or too late, changes nothing."""
