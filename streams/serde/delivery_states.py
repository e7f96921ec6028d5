"""The states of a delivery and of an endpoint: one row or constant each.

A new state of a delivery is a name in `DeliveryStatus`, its constant, its row, and its row in
docs/deliveries.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

DeliveryStatus = Literal["pending", "delivered", "parked", "dead"]
PENDING: Final = "pending"
DELIVERED: Final = "delivered"
PARKED: Final = "parked"
DEAD: Final = "dead"

ParkedBecause = Literal["endpoint_disabled", "endpoint_removed"]
ENDPOINT_DISABLED: Final = "endpoint_disabled"
ENDPOINT_REMOVED: Final = "endpoint_removed"

Circuit = Literal["closed", "open"]
CLOSED: Final = "closed"
OPEN: Final = "open"

DisabledBecause = Literal["gone", "failing"]
GONE: Final = "gone"
"""The receiver answered 410."""
FAILING: Final = "failing"
"""Every attempt of five days failed."""


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """One state of a delivery.

    A delivery that `expires` is dead once it is older than `retention.deliveries_days`. A recovery
    that names no state takes those that are `is_recoverable`.
    """

    name: DeliveryStatus
    expires: bool = False
    is_recoverable: bool = False


DELIVERY_STATES = (
    DeliveryState(PENDING, expires=True),
    DeliveryState(DELIVERED),
    DeliveryState(PARKED, expires=True, is_recoverable=True),
    DeliveryState(DEAD, is_recoverable=True),
)
"""In the order in which lists and documents name them."""

NAMES = tuple(state.name for state in DELIVERY_STATES)
EXPIRING = frozenset(state.name for state in DELIVERY_STATES if state.expires)
RECOVERABLE = tuple(state.name for state in DELIVERY_STATES if state.is_recoverable)
