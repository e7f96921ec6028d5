"""One step of the delivery stage: the transitions of rows and endpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Protocol

from streams.delivery.change import Change
from streams.delivery.endpoint import Endpoint
from streams.delivery.rows import Rows
from streams.delivery.shared import Shared
from streams.delivery.store import DeliveryStore
from streams.serde.codec import DELIVERY_COMMAND
from streams.serde.delivery_records import Delivery, DeliveryCommand, Outgoing
from streams.serde.delivery_states import ENDPOINT_REMOVED, OPEN, PARKED, PENDING, ParkedBecause
from streams.serde.ids import delivery_id
from streams.serde.keys import SEPARATOR, join
from streams.tenants.endpoints import CALLBACKS

PARKING, RECOVERY, ERASING = b"P", b"R", b"X"
"""The key spaces of work on many rows that steps begin; the part `Upkeep` does it."""


class Routing(Protocol):
    """What the stage does for its parts."""

    def announced(self, step: Step, message: Outgoing, happened: int) -> None:
        """Tell all parts of a message."""

    def wants_more(self, step: Step, endpoint: Endpoint, since: int, opened: int) -> None:
        """Tell all parts of an endpoint that wants more than before."""

    def apply(self, step: Step, command: DeliveryCommand) -> None:
        """Have the part that handles a command apply it."""


class Step:
    """What a part works with; `now` is in milliseconds and stays the same during the step."""

    def __init__(self, store: DeliveryStore, rows: Rows, shared: Shared, routing: Routing) -> None:
        self.ctx = store.ctx
        self.now = self.ctx.now
        self.store = store
        self.rows = rows
        self.shared = shared
        self.on_undo = self.ctx.on_undo
        self._routing = routing

    def enter(
        self, message: Outgoing, endpoints: Sequence[Endpoint], order: Callable[[], int]
    ) -> None:
        """Make the rows of a message that do not exist yet, pending or parked.

        `order` returns the number of a row for the order in its lane.
        """
        ids = [delivery_id(message.tenant_id, e.id, message.message_id) for e in endpoints]
        known = zip(endpoints, ids, self.rows.exist(ids), strict=True)
        missing = [(endpoint, id_) for endpoint, id_, exists in known if not exists]
        if missing:
            self.store.put_message(message)
        for endpoint, id_ in missing:
            self._admit(self._row(message, endpoint, id_, order), endpoint.closed_because)

    def enter_callback(self, message: Outgoing, url: str, happened: int) -> bool:
        """Make the row of a callback; returns False if it is parked for want of its endpoint."""
        id_ = delivery_id(message.tenant_id, CALLBACKS, message.message_id)
        if self.rows.get(id_) is not None:
            return True
        endpoint = self.shared.endpoints.get(message.tenant_id, CALLBACKS)
        self.store.put_message(message)
        order = partial(self.store.next_order, happened)
        row = replace(self._row(message, endpoint, id_, order), kind="callback", url=url)
        self._admit(row, endpoint.closed_because if endpoint else ENDPOINT_REMOVED)
        return endpoint is not None

    def enter_test(self, message: Outgoing, id_: str, endpoint: Endpoint) -> None:
        """Make the row of a test, which is sent whatever the state of its endpoint is."""
        if self.rows.get(id_) is None:
            self.store.put_message(message)
            row = self._row(message, endpoint, id_, lambda: 0)
            self.rows.put(replace(row, lane=None), None)

    def unpark(self, message: Outgoing, endpoint: Endpoint) -> None:
        """Send the row of a message that was parked before its endpoint was known to take it."""
        row = self.rows.get(delivery_id(message.tenant_id, endpoint.id, message.message_id))
        if row is not None and row.status == PARKED and endpoint.closed_because is None:
            self.drive_anew(row, row.command_id)

    def drive_anew(self, row: Delivery, command_id: str | None) -> None:
        """Have a row sent again as if it were new, whatever became of it before.

        In a lane it gets the place that it had: a recovery drives rows anew in parts, which are not
        in their order.
        """
        self.rows.put(
            replace(
                row,
                status=PENDING,
                round=0,
                next_attempt_at=self.now,
                parked_because=None,
                command_id=command_id,
                updated_at=self.now,
            ),
            row,
        )

    def put_endpoint(self, endpoint: Endpoint) -> None:
        """Set an endpoint: write and publish what changed, and have everything follow."""
        before = self.shared.endpoints.get(*endpoint.place)
        if before is endpoint:
            return
        if before is None or before.record is not endpoint.record:
            self.store.put_settings(endpoint)
        if before is None or before.state != endpoint.state:
            self.store.put_state(endpoint.state)
        self._follow(Change(before, endpoint))

    def remove_endpoint(self, endpoint: Endpoint) -> None:
        """Forget an endpoint, and have its rows parked."""
        self.store.drop_endpoint(*endpoint.place)
        self.park_rows_of(*endpoint.place)
        self._follow(Change(endpoint, None))

    def park_rows_of(self, tenant_id: str, endpoint_id: str) -> None:
        """Have the pending rows of an endpoint that is closed or gone parked, in parts."""
        self.begin(PARKING + join(tenant_id, endpoint_id))

    def recover(self, command: DeliveryCommand) -> None:
        """Have rows of an endpoint sent again, in parts; its recoveries are done in their order."""
        place = join(command.tenant_id, command.endpoint_id, f"{command.at:020}")
        key = RECOVERY + place + SEPARATOR + command.command_id.encode()
        self.begin(key, DELIVERY_COMMAND.encode(command))

    def begin(self, key: bytes, value: bytes = b"") -> None:
        """Keep work on many rows for the punctuations."""
        self.store.queue.put(key, value)
        self.shared.begin_work()

    def probe_now(self, endpoint: Endpoint, first: str = "") -> None:
        """Send the probe of an open circuit at once: what a person drives anew waits no longer.

        The row with the id `first` is the probe if it is not behind others in its lane.
        """
        if endpoint.state.circuit == OPEN:
            self.put_endpoint(replace(endpoint, first=first).changed(self.now, open_until=self.now))
        self.shared.ready.turn(endpoint)

    def announce(self, message: Outgoing, happened: int) -> None:
        """Have the endpoints that want a message get it."""
        self._routing.announced(self, message, happened)

    def wants_more(self, endpoint: Endpoint, since: int, opened: int) -> None:
        """Give an endpoint what it wants since a time (`Part.wants_more`)."""
        self._routing.wants_more(self, endpoint, since, opened)

    def apply(self, command: DeliveryCommand) -> None:
        """Have the part that handles a command apply it."""
        self._routing.apply(self, command)

    def _admit(self, row: Delivery, closed_because: ParkedBecause | None) -> None:
        admitted = row if closed_because is None else parked(row, closed_because, self.now)
        self.rows.put(admitted, None)

    def _follow(self, change: Change[Endpoint]) -> None:
        self.on_undo(self.shared.endpoint_changed, change.reversed())
        self.shared.endpoint_changed(change)

    def _row(
        self, message: Outgoing, endpoint: Endpoint | None, id_: str, order: Callable[[], int]
    ) -> Delivery:
        settings = endpoint.settings if endpoint else None
        lane = _lane(settings.ordering, message) if settings else None
        return Delivery(
            delivery_id=id_,
            tenant_id=message.tenant_id,
            endpoint_id=endpoint.id if endpoint else CALLBACKS,
            message_id=message.message_id,
            kind=message.kind,
            type=message.type,
            source=message.source,
            event_id=message.event_id,
            job_id=message.job_id,
            status=PENDING,
            attempts=0,
            round=0,
            next_attempt_at=self.now,
            parked_because=None,
            last_status=None,
            last_error=None,
            lane=lane,
            order=0 if lane is None else order(),
            url=None,
            format=settings.format if settings else "cloudevents",
            mapping=settings.mapping if settings else None,
            command_id=None,
            traceparent=message.traceparent,
            created_at=self.now,
            updated_at=self.now,
        )


def parked(row: Delivery, because: ParkedBecause, now: int) -> Delivery:
    """The row, kept without being sent."""
    return replace(row, status=PARKED, parked_because=because, next_attempt_at=None, updated_at=now)


def _lane(ordering: str, message: Outgoing) -> str | None:
    if ordering == "parallel":
        return None
    if ordering == "fifo":
        return "all"
    return blake2b((message.subject or "").encode(), digest_size=8).hexdigest()
