"""Which rows may be sent: whose turn it is, from where to look in the queue, unfinished tests.

It follows each change of a row or an endpoint, and each that is undone. An endpoint that has a turn
in vain costs one look, so a change that may matter gives one.
"""

from __future__ import annotations

from streams.delivery import queue
from streams.delivery.change import Change
from streams.delivery.endpoint import Endpoint
from streams.delivery.endpoints import Endpoints
from streams.delivery.in_flight import EndpointId
from streams.delivery.rotation import Rotation
from streams.serde.delivery_records import Delivery
from streams.serde.delivery_states import PENDING


class Ready:
    """What of one partition's rows may be sent, now or later.

    `cursors` are keys of the queue from which to look for more rows of an endpoint. `tests` maps
    the ids of unfinished tests to their due times.
    """

    def __init__(self, endpoints: Endpoints) -> None:
        self.rotation = Rotation()
        self.cursors: dict[EndpointId, bytes] = {}
        self.tests: dict[str, int] = {}
        self._endpoints = endpoints

    def row_changed(self, change: Change[Delivery]) -> None:
        """Follow a change of a row."""
        row, before = change.after, change.before
        if row is not None and row.status == PENDING:
            if not change.waits:
                self.may_go(row)
        elif before is not None:
            self.tests.pop(before.delivery_id, None)

    def endpoint_changed(self, change: Change[Endpoint]) -> None:
        """Follow a change of an endpoint."""
        if change.after is not None:
            self.turn(change.after)
        elif change.before is not None:
            self.cursors.pop(change.before.place, None)

    def tenant_changed(self, tenant_id: str, _: bool) -> None:
        """Follow the closing or opening of a tenant."""
        for endpoint in self._endpoints.of(tenant_id):
            self.turn(endpoint)

    def may_go(self, row: Delivery) -> None:
        """Have a pending row found once it is due."""
        due = row.next_attempt_at or 0
        if row.is_test:
            self.tests[row.delivery_id] = due
            return
        endpoint = self._endpoints.get(row.tenant_id, row.endpoint_id)
        if endpoint is not None:
            place = endpoint.place
            if place in self.cursors:
                self.cursors[place] = min(self.cursors[place], queue.entry(row))
            self.rotation.sleep(place, max(due, endpoint.free_at))

    def turn(self, endpoint: Endpoint) -> None:
        """Give an endpoint its turn, now or when its circuit or rate lets it send."""
        self.rotation.sleep(endpoint.place, endpoint.free_at)
