"""What becomes of a row, and of its endpoint, when an attempt has ended.

Nothing here writes: `settled` and `after_attempt` compute the new values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from streams.delivery.attempts import Ended
from streams.delivery.endpoint import WIDEST_WINDOW, Endpoint
from streams.serde.delivery_records import Delivery
from streams.serde.delivery_states import (
    CLOSED,
    DEAD,
    DELIVERED,
    ENDPOINT_REMOVED,
    FAILING,
    GONE,
    OPEN,
    PARKED,
    PENDING,
    DisabledBecause,
)

TEST_RETRY = (1.0, 2.0)
"""Seconds before each further attempt of a test."""
_OURS_MS, _LONGEST_OURS_MS = 10_000, 300_000
"""How long a row waits after a failure that its receiver did not cause: twice as long for each
earlier attempt, whatever became of that one."""
_LONGEST_WAIT_MS = 86_400_000
"""The longest wait that a receiver's `Retry-After` can bring about."""
_JITTER = 0.2
_FAILURES_TO_OPEN = 5
_OPEN_MS, _LONGEST_OPEN_MS = 30_000, 300_000
_GIVEN_UP_MS = 5 * 86_400_000
"""An endpoint that only failed for so long is disabled (Standard Webhooks, "Disabling")."""
_HTTP_GONE = 410
"""It disables an endpoint; a callback's own URL is gone without those of the others."""
_OF_MESSAGE = frozenset({400, 409, 413, 415, 422})
"""Statuses that speak of the message and not of the receiver (RFC 9110, 15.5)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """`keep_ms` is the age at which a pending row is dead; `chance` returns a number in [0, 1)."""

    keep_ms: int
    chance: Callable[[], float]


def settled(
    row: Delivery, ended: Ended, endpoint: Endpoint | None, now: int, rules: Rules
) -> Delivery:
    """The row after an attempt; a pending row has the time of its next one.

    `endpoint` is as it is after the attempt, None if it was removed. If the probe of an open
    circuit found that the receiver still fails, the attempt does not count. Its row stays due, so
    that it goes as soon as the circuit closes.
    """
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
    if endpoint is None:
        return replace(told, status=PARKED, parked_because=ENDPOINT_REMOVED)
    if endpoint.closed_because is not None and not row.is_test:
        return replace(told, status=PARKED, parked_because=endpoint.closed_because)
    return _failed(told, ended, endpoint, now, rules)


def _failed(told: Delivery, ended: Ended, endpoint: Endpoint, now: int, rules: Rules) -> Delivery:
    if ended.blame == "message" or (ended.status == _HTTP_GONE and told.url is not None):
        return replace(told, status=DEAD)
    if ended.blame == "us":
        doubled = _OURS_MS * 2 ** min(told.attempts - 1, 8)
        return _again(told, now + min(doubled, _LONGEST_OURS_MS), rules)
    if ended.probe and ended.status not in _OF_MESSAGE and not told.is_test:
        return _again(told, now, rules)
    counted = replace(told, round=told.round + 1)
    policy = TEST_RETRY if told.is_test else endpoint.settings.retry
    if counted.round > len(policy):
        return replace(counted, status=DEAD)
    return _again(counted, now + _wait_ms(policy[told.round], ended, rules), rules)


def after_attempt(endpoint: Endpoint, ended: Ended, now: int) -> Endpoint:
    """The endpoint with this failure or success counted."""
    if ended.error is None:  # also a test proves that the receiver is up
        return _succeeded(endpoint, now)
    if ended.blame != "receiver" or ended.row.is_test:
        return endpoint
    if ended.row.url is not None:  # its URL is its own, and says nothing of other callbacks' URLs
        return _narrowed(endpoint)
    return _receiver_failed(endpoint, ended, now)


def _receiver_failed(endpoint: Endpoint, ended: Ended, now: int) -> Endpoint:
    rejected = ended.status in _OF_MESSAGE
    if rejected:
        endpoint = _narrowed(endpoint)
    else:
        endpoint = replace(endpoint, failures=endpoint.failures + 1, window=1)
    state = endpoint.state
    since = state.failing_since or now
    if ended.status == _HTTP_GONE:
        return _disabled(endpoint, GONE, since, now)
    if now - since >= _GIVEN_UP_MS:
        return _disabled(endpoint, FAILING, since, now)
    if rejected and ended.probe:  # the receiver is up, and did not take one message
        closed = replace(endpoint, failures=0)
        return closed.changed(now, circuit=CLOSED, open_until=None, failing_since=since)
    enough = endpoint.has_circuit and endpoint.failures >= _FAILURES_TO_OPEN
    if not rejected and (ended.probe or (state.circuit == CLOSED and enough)):
        return _opened(endpoint, ended, since, now)
    return endpoint if state.failing_since else endpoint.changed(now, failing_since=since)


def _narrowed(endpoint: Endpoint) -> Endpoint:
    return replace(endpoint, window=max(1, endpoint.window // 2))


def expires_at(row: Delivery, rules: Rules) -> int:
    """When a row that is pending or parked is dead; one that a person drove anew lives longer."""
    return row.created_at + rules.keep_ms * (1 if row.command_id is None else 2)


def _succeeded(endpoint: Endpoint, now: int) -> Endpoint:
    window = min(WIDEST_WINDOW, endpoint.window * 2)
    state = endpoint.state
    if endpoint.failures or endpoint.opened or window != endpoint.window:
        endpoint = replace(endpoint, failures=0, opened=0, window=window)
    if state.circuit == CLOSED and state.failing_since is None:
        return endpoint
    return endpoint.changed(now, circuit=CLOSED, open_until=None, failing_since=None)


def _opened(endpoint: Endpoint, ended: Ended, since: int, now: int) -> Endpoint:
    wait = min(_LONGEST_OPEN_MS, _OPEN_MS * 2**endpoint.opened)
    asked = (ended.retry_after_seconds or 0) * 1000
    until = now + round(max(wait, min(asked, _LONGEST_WAIT_MS)))
    opened = replace(endpoint, opened=endpoint.opened + 1)
    return opened.changed(now, circuit=OPEN, open_until=until, failing_since=since)


def _disabled(endpoint: Endpoint, because: DisabledBecause, since: int, now: int) -> Endpoint:
    return endpoint.changed(
        now,
        circuit=CLOSED,
        open_until=None,
        failing_since=since,
        disabled_because=because,
        disabled_at=now,
    )


def _wait_ms(seconds: float, ended: Ended, rules: Rules) -> int:
    """The wait before the next attempt, never shorter than the policy's."""
    wait = math.ceil(1000 * seconds * (1 + _JITTER * rules.chance()))
    asked = math.ceil(1000 * (ended.retry_after_seconds or 0))
    return max(wait, min(asked, _LONGEST_WAIT_MS))


def _again(row: Delivery, at: int, rules: Rules) -> Delivery:
    """The row, to be sent again at a time; dead if it is too old by then."""
    if at >= expires_at(row, rules):
        return replace(row, status=DEAD, last_error=row.last_error or "too_old")
    return replace(row, status=PENDING, next_attempt_at=at)
