"""Applies an attempt that ended: to its row, to its endpoint, and to the log of attempts."""

from __future__ import annotations

from dataclasses import replace

import structlog

from streams.delivery import messages, metrics
from streams.delivery.attempts import Ended
from streams.delivery.endpoint import Endpoint
from streams.delivery.fan_out import FanOut
from streams.delivery.settling import judged, settled
from streams.delivery.transitions import Transitions, parked
from streams.serde.codec import DELIVERY_ATTEMPT
from streams.serde.delivery_records import Delivery, DeliveryAttempt, EndpointState
from streams.serde.delivery_states import DELIVERED, ENDPOINT_REMOVED, OPEN, PENDING

log = structlog.get_logger(__name__)

ATTEMPTS_TOPIC = "deliveries.attempts"


def apply(ended: Ended, steps: Transitions, fan_out: FanOut) -> bool:
    """Write the attempt and what follows from it; returns whether anything was written.

    The attempt of a row that was changed meanwhile, or of one that is known already, changes only
    what it still can.
    """
    row = steps.store.row(ended.row.delivery_id)
    if ended.blame == "nobody":
        steps.choose_again(ended.row if row is None else row)
        return False
    endpoint = steps.endpoints.get(ended.row.tenant_id, ended.row.endpoint_id)
    current = row if row is not None and row.attempts == ended.row.attempts else None
    if current is not None:
        if endpoint is not None and ended.url == (current.url or endpoint.settings.url):
            # What a former URL answers says nothing of the one that a PUT has set meanwhile.
            steps.endpoints.note_course(endpoint)
            _judge(endpoint, judged(endpoint, ended, steps.now), steps, fan_out)
        _apply(current, ended, endpoint, steps)
    if endpoint is not None:
        steps.turn(endpoint)
    return current is not None


def _apply(row: Delivery, ended: Ended, endpoint: Endpoint | None, steps: Transitions) -> None:
    if endpoint is None:
        after = _without_endpoint(row, ended, steps.now)
    else:
        after = settled(row, ended, endpoint, steps.now, steps.rules)
    if row.status != PENDING and after.status != DELIVERED:
        after = replace(
            row,
            attempts=after.attempts,
            last_status=after.last_status,
            last_error=after.last_error,
            updated_at=steps.now,
        )
    steps.move(row, after)
    _log(row, ended, after, _next_at(after, endpoint), steps)
    metrics.ATTEMPTS.labels(ended.error or DELIVERED).inc()


def _judge(endpoint: Endpoint, state: EndpointState, steps: Transitions, fan_out: FanOut) -> None:
    """Give an endpoint its new state; if that disables it, park its rows and tell the others."""
    before = endpoint.state
    if state == before:
        return
    endpoint.state = state
    steps.store.put_state(state)
    if state.circuit == OPEN and before.circuit != OPEN:
        metrics.CIRCUITS_OPENED.inc()
    because = state.disabled_because
    if because is None or before.disabled_because is not None:
        return
    log.warning(
        "endpoint disabled: mend its receiver, enable it, and recover its deliveries",
        tenant_id=endpoint.tenant_id,
        endpoint_id=endpoint.id,
        because=because,
    )
    steps.park_rows_of(endpoint.tenant_id, endpoint.id)
    notice = messages.of_disabled(endpoint.tenant_id, endpoint.id, because, steps.now)
    fan_out.take(notice, steps.now, steps)


def _without_endpoint(row: Delivery, ended: Ended, now: int) -> Delivery:
    told = replace(
        row,
        attempts=row.attempts + 1,
        last_status=ended.status,
        last_error=ended.error,
        next_attempt_at=None,
        updated_at=now,
    )
    if ended.error is None:
        return replace(told, status=DELIVERED)
    return parked(told, ENDPOINT_REMOVED, now)


def _next_at(row: Delivery, endpoint: Endpoint | None) -> int | None:
    """When the next attempt comes, if no person brings it forward."""
    circuit = endpoint.state.open_until if endpoint and not row.is_test else None
    return row.next_attempt_at and max(row.next_attempt_at, circuit or 0)


def _log(
    row: Delivery, ended: Ended, after: Delivery, next_at: int | None, steps: Transitions
) -> None:
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
    steps.store.ctx.forward(ATTEMPTS_TOPIC, row.delivery_id.encode(), value)
