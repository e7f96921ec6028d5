"""What operators ask of the stage, read from `deliveries.commands`."""

from __future__ import annotations

from dataclasses import replace

import structlog

from streams.delivery import messages
from streams.delivery.endpoint import Endpoint
from streams.delivery.history import SLACK_MS
from streams.delivery.store import EARLY_CALLBACK, RECOVERY
from streams.delivery.transitions import Transitions
from streams.delivery.upkeep import recovery_key
from streams.serde.codec import DELIVERY_COMMAND
from streams.serde.delivery_records import DeliveryCommand

log = structlog.get_logger(__name__)


def obey(command: DeliveryCommand, steps: Transitions) -> None:
    """Do what a command asks; one that is read again, or comes too late, changes nothing.

    Raises:
        PoisonRecord: its ids cannot be used.
    """
    messages.check_ids(command.tenant_id, command.endpoint_id, command.command_id)
    if command.kind == "retry":
        _retry(command, steps)
    elif command.kind == "test":
        _test(command, steps)
    else:
        _recover(command, steps)


def recover_callbacks(endpoint: Endpoint, steps: Transitions) -> None:
    """Recover the callbacks that were read before the setting that preceded them.

    Rows have a lower bound of the broker's time, so one may seem older than the setting.
    """
    early = EARLY_CALLBACK + endpoint.tenant_id.encode()
    if steps.store.queue.get(early) is None:
        return
    steps.store.queue.delete(early)
    command = DeliveryCommand(
        f"cmd_callbacks_{endpoint.since}", endpoint.tenant_id, endpoint.id, "recover", None,
        max(0, endpoint.since - SLACK_MS), steps.now + 1, ("parked",), None, None, steps.now,
    )  # fmt: skip
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
    elif row.kind != "test":  # a test does not wait for the circuit
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
    if endpoint and steps.store.asked_before(*place, command.command_id, steps.rules.keep_ms):
        return
    # Rows have the broker's time, so a recovery without an end takes the rows of now by that clock.
    command = replace(command, at=steps.now + 1)
    steps.store.queue.put(RECOVERY + recovery_key(command), DELIVERY_COMMAND.encode(command))
