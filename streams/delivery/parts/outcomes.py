"""Applies attempts that ended: to the row, to its endpoint, and to the log of attempts."""

from __future__ import annotations

from dataclasses import replace

import structlog

from streams.delivery import messages, metrics
from streams.delivery.attempts import Ended
from streams.delivery.endpoint import Endpoint
from streams.delivery.part import Part
from streams.delivery.settling import after_attempt, settled
from streams.delivery.shared import Shared
from streams.delivery.step import Step
from streams.serde.codec import DELIVERY_ATTEMPT
from streams.serde.delivery_records import Delivery, DeliveryAttempt
from streams.serde.delivery_states import DELIVERED, OPEN, PENDING

log = structlog.get_logger(__name__)

ATTEMPTS_TOPIC = "deliveries.attempts"


class Outcomes(Part):
    """Takes what attempts came to from the sender, and applies it again if that was undone."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._undone: list[Ended] = []

    def tick(self, step: Step) -> None:
        """Apply the attempts that ended since the last time."""
        ended = [*self._undone, *self.shared.sender.ended(self.shared.partition)]
        self._undone.clear()
        if ended:
            step.on_undo(self._undone.extend, ended)
        for each in ended:
            self.shared.in_flight.remove(each.row.delivery_id)
        for each in ended:
            _apply(each, step)

    def rests(self, until: int) -> bool:
        """Whether no end has to be applied again."""
        return not self._undone


def _apply(ended: Ended, step: Step) -> None:
    """Write the attempt and what follows from it.

    The attempt of a row that was changed meanwhile, or of one that is known already, changes only
    what it still can.
    """
    row = step.rows.get(ended.row.delivery_id)
    if ended.blame == "nobody":
        step.shared.ready.may_go(ended.row if row is None else row)
        return
    endpoint = step.shared.endpoints.get(ended.row.tenant_id, ended.row.endpoint_id)
    if row is not None and row.attempts == ended.row.attempts:
        if endpoint is not None and ended.url == (row.url or endpoint.settings.url):
            # What a former URL answers says nothing of the one that a PUT has set meanwhile.
            endpoint = _follow(endpoint, after_attempt(endpoint, ended, step.now), step)
        _write(row, ended, endpoint, step)
    if endpoint is not None:
        step.shared.ready.turn(endpoint)


def _write(row: Delivery, ended: Ended, endpoint: Endpoint | None, step: Step) -> None:
    after = settled(row, ended, endpoint, step.now, step.shared.rules)
    if row.status != PENDING and after.status != DELIVERED:
        after = replace(
            row,
            attempts=after.attempts,
            last_status=after.last_status,
            last_error=after.last_error,
            updated_at=step.now,
        )
    step.rows.put(after, row)
    _log(row, ended, after, _next_at(after, endpoint), step)
    metrics.ATTEMPTS.labels(ended.error or DELIVERED).inc()


def _follow(before: Endpoint, after: Endpoint, step: Step) -> Endpoint:
    """Set an endpoint after an attempt; if that disables it, park its rows and tell the others."""
    step.put_endpoint(after)
    if after.state.circuit == OPEN and before.state.circuit != OPEN:
        metrics.CIRCUITS_OPENED.inc()
    because = after.state.disabled_because
    if because is None or before.state.disabled_because is not None:
        return after
    log.warning(
        "endpoint disabled: mend its receiver, enable it, and recover its deliveries",
        tenant_id=after.tenant_id,
        endpoint_id=after.id,
        because=because,
    )
    step.park_rows_of(*after.place)
    step.announce(messages.of_disabled(*after.place, because, step.now), step.now)
    return after


def _next_at(row: Delivery, endpoint: Endpoint | None) -> int | None:
    """When the next attempt comes, if no person brings it forward."""
    circuit = endpoint.state.open_until if endpoint and not row.is_test else None
    return row.next_attempt_at and max(row.next_attempt_at, circuit or 0)


def _log(row: Delivery, ended: Ended, after: Delivery, next_at: int | None, step: Step) -> None:
    attempt = DeliveryAttempt(
        delivery_id=row.delivery_id,
        tenant_id=row.tenant_id,
        endpoint_id=row.endpoint_id,
        message_id=row.message_id,
        attempt=after.attempts,
        at=ended.at,
        duration_ms=ended.duration_ms,
        address=ended.address,
        status=ended.status,
        error=ended.error,
        detail=ended.detail,
        excerpt=ended.excerpt,
        next_attempt_at=next_at,
    )
    value = DELIVERY_ATTEMPT.encode(attempt)
    step.ctx.forward(ATTEMPTS_TOPIC, row.delivery_id.encode(), value)
