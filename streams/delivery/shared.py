"""What the parts of one partition share."""

from __future__ import annotations

from dataclasses import dataclass, field

from streams.closed_tenants import ClosedTenants
from streams.delivery.attempts import Attempt, Sender
from streams.delivery.change import Change
from streams.delivery.endpoint import Endpoint
from streams.delivery.endpoints import Endpoints
from streams.delivery.history import History
from streams.delivery.in_flight import EndpointId, InFlight
from streams.delivery.ready import Ready
from streams.delivery.settling import Rules
from streams.delivery.slots import Slots
from streams.serde.delivery_states import OPEN


@dataclass(slots=True)
class Shared:
    """One partition.

    - `endpoints`, `closed` tenants and what is `ready` to be sent follow each change of a row or an
      endpoint. What is `in_flight` does not.
    - `catching_up` are endpoints for which the log is read again, because they may have missed
      something.
    - `has_work` says that the store may hold work on many rows.
    """

    partition: int
    rules: Rules
    sender: Sender
    history: History
    in_flight: InFlight
    endpoints: Endpoints
    closed: ClosedTenants
    ready: Ready
    catching_up: set[EndpointId] = field(default_factory=set)
    has_work: bool = True

    def endpoint_changed(self, change: Change[Endpoint]) -> None:
        """Follow a change of an endpoint, or one that was undone."""
        self.endpoints.changed(change)
        self.ready.endpoint_changed(change)

    def is_open(self, endpoint: Endpoint) -> bool:
        """Whether rows of an endpoint may be sent, as far as it and its tenant are concerned.

        An ordered endpoint waits for the end of a recovery and for what it missed.
        """
        in_order = endpoint.is_recovering or endpoint.place in self.catching_up
        return not (
            endpoint.closed_because
            or endpoint.tenant_id in self.closed
            or (endpoint.is_ordered and in_order)
        )

    def begin_work(self) -> None:
        """Note that the store may hold work on many rows."""
        self.has_work = True

    def takes(self, attempt: Attempt) -> bool:
        """Whether an attempt that was chosen before may still be sent; any thread may ask.

        It may not after a change of its endpoint, and while the endpoint's circuit is open. A test
        goes out whatever the state of its endpoint is.
        """
        row = attempt.row
        endpoint = self.endpoints.get(row.tenant_id, row.endpoint_id)
        if endpoint is None or endpoint.record != attempt.endpoint:
            return False
        if row.is_test:
            return True
        open_ = endpoint.state.circuit == OPEN and not attempt.probe
        return not (open_ or endpoint.closed_because or row.tenant_id in self.closed)


def shared(sender: Sender, history: History, slots: Slots, rules: Rules, partition: int) -> Shared:
    """A partition of which nothing is known yet."""
    endpoints = Endpoints()
    ready = Ready(endpoints)
    closed = ClosedTenants(ready.tenant_changed)
    return Shared(partition, rules, sender, history, InFlight(slots), endpoints, closed, ready)
