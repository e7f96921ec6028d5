"""The transitions of rows, each with its effects on the queue and on whose turn it is."""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from hashlib import blake2b

from streams.delivery import queue
from streams.delivery.endpoint import Endpoint, changed
from streams.delivery.endpoints import Endpoints
from streams.delivery.rotation import Rotation
from streams.delivery.settling import Rules
from streams.delivery.store import EARLY_CALLBACK, PARKING, TEST, DeliveryStore
from streams.serde.delivery_records import Delivery, Outgoing
from streams.serde.delivery_states import ENDPOINT_REMOVED, OPEN, PARKED, PENDING, ParkedBecause
from streams.serde.ids import delivery_id
from streams.serde.keys import join
from streams.tenants.endpoints import CALLBACKS

_DUE = struct.Struct(">Q")


class Transitions:
    """What one step of the stage does to rows.

    `in_flight` are the rows that the sender has; `tests` maps unfinished tests to their due times.
    """

    def __init__(
        self,
        store: DeliveryStore,
        endpoints: Endpoints,
        rotation: Rotation,
        in_flight: Container[str],
        tests: dict[str, int],
        rules: Rules,
        begin_upkeep: Callable[[], None],
    ) -> None:
        self.store = store
        self.now = store.ctx.now
        self.endpoints = endpoints
        self.rules = rules
        self.begin_upkeep = begin_upkeep
        self._rotation = rotation
        self._in_flight = in_flight
        self._tests = tests

    def enter(self, message: Outgoing, endpoints: Sequence[Endpoint]) -> None:
        """Make the rows of a message that do not exist yet, pending or parked."""
        ids = [delivery_id(message.tenant_id, e.id, message.message_id) for e in endpoints]
        known = self.store.rows.get_many([id_.encode() for id_ in ids])
        missing = [
            (e, id_) for e, id_, value in zip(endpoints, ids, known, strict=True) if value is None
        ]
        if missing:
            self.store.put_message(message)
        for endpoint, id_ in missing:
            self.admit(self._row(message, endpoint, id_), endpoint.closed_because)

    def enter_callback(self, message: Outgoing, url: str) -> None:
        """Make the row of a callback; without its endpoint it is parked, and noted."""
        id_ = delivery_id(message.tenant_id, CALLBACKS, message.message_id)
        if self.store.row(id_) is not None:
            return
        endpoint = self.endpoints.get(message.tenant_id, CALLBACKS)
        if endpoint is None:
            self.store.queue.put(EARLY_CALLBACK + message.tenant_id.encode(), b"")
        self.store.put_message(message)
        row = replace(self._row(message, endpoint, id_), kind="callback", url=url)
        self.admit(row, endpoint.closed_because if endpoint else ENDPOINT_REMOVED)

    def enter_test(self, message: Outgoing, id_: str, endpoint: Endpoint) -> None:
        """Make the row of a test, which is sent whatever the state of its endpoint is."""
        if self.store.row(id_) is None:
            self.store.put_message(message)
            self.pend(replace(self._row(message, endpoint, id_), lane=None))

    def admit(self, row: Delivery, closed_because: ParkedBecause | None) -> None:
        """Put a row without a queue place in the queue, or park it."""
        if closed_because is None:
            self.pend(row)
        else:
            self.store.put_row(parked(row, closed_because, self.now))

    def pend(self, row: Delivery) -> None:
        """Write a pending row and put it in the queue."""
        if not row.is_test:
            self._queued(self.store.enqueue(row), row)
            return
        due = row.next_attempt_at or 0
        self.store.put_row(row)
        self.store.queue.put(_test_key(row), _DUE.pack(due))
        self._tests[row.delivery_id] = due

    def move(self, before: Delivery, after: Delivery) -> None:
        """Give a row its new state; `before` is the row as it is stored."""
        if before.status == after.status == PENDING and not before.is_test:
            self._queued(self.store.put_off(before, after), after)
            return
        if before.status == PENDING:
            self._leave(before)
        if after.status == PENDING:
            self.pend(after)
        else:
            self.store.put_row(after)

    def unpark(self, message: Outgoing, endpoint: Endpoint) -> None:
        """Send the row of a message that was parked before its endpoint was known to take it."""
        row = self.store.row(delivery_id(message.tenant_id, endpoint.id, message.message_id))
        if row is not None and row.status == PARKED and endpoint.closed_because is None:
            self.drive_anew(row, row.command_id)

    def drive_anew(self, row: Delivery, command_id: str | None) -> None:
        """Have a row sent again as if it were new, whatever became of it before.

        In a lane it gets the place that it had: a recovery drives rows anew in parts, which are not
        in their order.
        """
        anew = replace(
            row,
            status=PENDING,
            round=0,
            next_attempt_at=self.now,
            parked_because=None,
            command_id=command_id,
            updated_at=self.now,
        )
        if row.status != PENDING:
            self.store.make_way(anew, self._in_flight)
        self.move(row, anew)

    def delete(self, row: Delivery) -> None:
        """Forget a row."""
        if row.status == PENDING:
            self._leave(row)
        self.store.rows.delete(row.delivery_id.encode())

    def park_rows_of(self, tenant_id: str, endpoint_id: str) -> None:
        """Have the pending rows of an endpoint that is closed parked, in parts."""
        self.store.queue.put(PARKING + join(tenant_id, endpoint_id), b"")
        self.begin_upkeep()

    def choose_again(self, row: Delivery) -> None:
        """Have a row that was chosen and not sent be found again, if it is still in the queue."""
        endpoint = self.endpoints.get(row.tenant_id, row.endpoint_id)
        if endpoint is not None:
            endpoint.cursor = min(endpoint.cursor, queue.entry(row))
            self.turn(endpoint)

    def probe_now(self, endpoint: Endpoint, first: str = "") -> None:
        """Send the probe of an open circuit at once: what a person drives anew waits no longer.

        The row with the id `first` is the probe if it is not behind others in its lane.
        """
        state = endpoint.state
        if state.circuit == OPEN:
            endpoint.first = first
            endpoint.state = changed(state, self.now, open_until=self.now)
            self.store.put_state(endpoint.state)
        self.turn(endpoint)

    def turn(self, endpoint: Endpoint) -> None:
        """Give an endpoint its turn, now or when its circuit or rate lets it send."""
        at = endpoint.free_at(self.now)
        if at <= self.now:
            self._rotation.wake(endpoint)
        else:
            self._rotation.sleep(endpoint, at)

    def _leave(self, row: Delivery) -> None:
        if row.is_test:
            self.store.queue.delete(_test_key(row))
            self._tests.pop(row.delivery_id, None)
        else:
            self._queued(self.store.dequeue(row), row)

    def _queued(self, key: bytes | None, row: Delivery) -> None:
        endpoint = self.endpoints.get(row.tenant_id, row.endpoint_id)
        if key is None or endpoint is None:
            return
        endpoint.cursor = min(endpoint.cursor, key)
        due = queue.due_of(key, endpoint.prefix)
        if due <= self.now:
            self.turn(endpoint)
        else:
            self._rotation.sleep(endpoint, due)

    def _row(self, message: Outgoing, endpoint: Endpoint | None, id_: str) -> Delivery:
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
            order=0 if lane is None else self.store.next_order(),
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


def due_of_test(value: bytes) -> int:
    """The time in the entry of an unfinished test."""
    due: int = _DUE.unpack(value)[0]
    return due


def _lane(ordering: str, message: Outgoing) -> str | None:
    if ordering == "parallel":
        return None
    if ordering == "fifo":
        return "all"
    return blake2b((message.subject or "").encode(), digest_size=8).hexdigest()


def _test_key(row: Delivery) -> bytes:
    return TEST + join(row.tenant_id, row.endpoint_id, row.delivery_id)
