"""Chooses the rows to send now: fairly among tenants, and within the bounds of each endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from streams.delivery import queue
from streams.delivery.attempts import Attempt
from streams.delivery.endpoint import Endpoint
from streams.delivery.in_flight import EndpointId
from streams.delivery.pace import Pace
from streams.delivery.part import Part
from streams.delivery.rotation import Rotation
from streams.delivery.shared import Shared
from streams.delivery.slots import Slot
from streams.delivery.step import Step
from streams.serde.delivery_records import Delivery, Outgoing
from streams.serde.keys import after

_AT_ONCE = 64
"""How many rows of one endpoint are taken in one turn, and how many tests of all."""
_PROBES = 256
"""Among how many due rows the probe of an open circuit is looked for."""


class Sending(Part):
    """Takes due rows of one partition out of the queue's order, and sends them after the commit.

    Endpoints whose last attempt failed, or that had none yet, wait in a rotation of their own, of
    which each step looks at as many as may begin: there may be thousands.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._ready = shared.ready
        self._in_flight = shared.in_flight
        self.unproven = Rotation()
        self._pace = Pace()

    def tick(self, step: Step) -> None:
        """Choose the attempts to begin now."""
        chosen: list[Attempt] = []
        self._choose(step, chosen)
        self._choose_tests(step, chosen)
        if chosen:
            step.ctx.on_commit(self.shared.sender.send, self.shared.partition, chosen)

    def rests(self, until: int) -> bool:
        """Whether no row is under way or due by then."""
        rotations = self._ready.rotation, self.unproven
        busy = len(self._in_flight) or self._ready.tests
        return not busy and all(rotation.rests(until) for rotation in rotations)

    def _choose(self, step: Step, chosen: list[Attempt]) -> None:
        served: list[Endpoint] = []
        for endpoint in self._open(self._ready.rotation.turns(step.now)):
            if not endpoint.proven:
                self.unproven.wake(endpoint.place)
            elif self._serve(endpoint, step, chosen):
                served.append(endpoint)
        first = len(chosen)
        for endpoint in self._open(self.unproven.turns(step.now, self._pace.room(step.now))):
            if self._serve(endpoint, step, chosen):
                served.append(endpoint)
        self._pace.begun(len(chosen) - first)
        for endpoint in served:  # behind those that got no turn
            self._ready.rotation.wake(endpoint.place)

    def _choose_tests(self, step: Step, chosen: list[Attempt]) -> None:
        """Choose tests; they wait for nothing but their time, a slot and the sender.

        Each step looks at a few, and puts them behind the others: there may be thousands.
        """
        tests = self._ready.tests
        due = (id_ for id_, at in tests.items() if at <= step.now and id_ not in self._in_flight)
        for id_ in list(islice(due, _AT_ONCE)):
            tests[id_] = tests.pop(id_)
            row = step.rows.get(id_)
            endpoint = row and self.shared.endpoints.get(row.tenant_id, row.endpoint_id)
            message = row and step.store.message(row.tenant_id, row.message_id)
            if row and message and endpoint and self._slots(endpoint) > 0:
                chosen.append(self._attempt(endpoint, row, message, step))

    def _open(self, places: Sequence[EndpointId]) -> Iterator[Endpoint]:
        """The endpoints at these places to which something may be sent."""
        for place in places:
            endpoint = self.shared.endpoints.get(*place)
            if endpoint is not None and self.shared.is_open(endpoint):
                yield endpoint

    def _serve(self, endpoint: Endpoint, step: Step, chosen: list[Attempt]) -> bool:
        """Choose as many rows of an endpoint as it may have; returns whether there may be more."""
        room = self._room(endpoint, step)
        return room > 0 and self._take(endpoint, room, step, chosen)

    def _slots(self, endpoint: Endpoint) -> int:
        return self._in_flight.slots.room(_slot(endpoint), endpoint.tenant_id)

    def _room(self, endpoint: Endpoint, step: Step) -> int:
        free = self._slots(endpoint)
        if free <= 0:
            self._ready.rotation.wake(endpoint.place)
            return 0
        room = endpoint.room(self._in_flight.count(endpoint.place), step.now)
        if room <= 0 and endpoint.free_at > step.now:
            self._ready.turn(endpoint)
        return min(room, free, _AT_ONCE)

    def _take(self, endpoint: Endpoint, room: int, step: Step, chosen: list[Attempt]) -> bool:
        """Add due rows of an endpoint to `chosen`; returns whether there may be more."""
        before = len(chosen)
        for row, message in islice(_with_messages(self._in_turn(endpoint, step), step), room):
            chosen.append(self._attempt(endpoint, row, message, step))
            if self._slots(endpoint) <= 0:  # messages may be large
                break
        taken = len(chosen) - before
        charged = endpoint.charged(taken, step.now)
        if charged is not endpoint:
            step.put_endpoint(charged)
        if taken == room or self._slots(endpoint) <= 0:
            return True
        later = queue.until(endpoint.prefix, step.now)
        for key, _ in step.store.queue.range(later, after(endpoint.prefix)):
            self._ready.rotation.sleep(endpoint.place, queue.due_of(key, endpoint.prefix))
            break
        return False

    def _attempt(self, endpoint: Endpoint, row: Delivery, message: Outgoing, step: Step) -> Attempt:
        size = len(message.data or b"")
        self._in_flight.add(row.delivery_id, endpoint.place, _slot(endpoint), size)
        step.on_undo(self._give_up, row)
        attempt = _attempt(endpoint, row, message, step.now)
        return replace(attempt, wanted=partial(self.shared.takes, attempt))

    def _give_up(self, row: Delivery) -> None:
        """Have a row that was chosen, and is not sent, be found again."""
        self._in_flight.remove(row.delivery_id)
        self._ready.may_go(row)

    def _in_turn(self, endpoint: Endpoint, step: Step) -> Iterator[Delivery]:
        """Due rows that the sender does not have, in the order in which they are sent.

        The probe of an open circuit is a row that a person retried, otherwise one of those that
        were attempted least: a message on which the receiver fails each time holds up no other. Of
        each lane only the first is there.
        """
        due = self._due(endpoint, step)
        if not endpoint.probes(step.now):
            return due
        cursor = self._ready.cursors.get(endpoint.place, b"")
        rows = list(islice(due, _PROBES))
        self._ready.cursors[endpoint.place] = cursor  # those that are passed over are not behind it
        rows.sort(key=lambda row: (row.attempts, self.shared.rules.chance()))
        return chain(self._retried(endpoint, step), rows)

    def _retried(self, endpoint: Endpoint, step: Step) -> Iterator[Delivery]:
        """The row that a person wants to be the probe, if it may be sent now."""
        first = endpoint.first
        row = step.rows.get(first) if first and first not in self._in_flight else None
        if row is not None and step.rows.in_queue(row):
            yield row

    def _due(self, endpoint: Endpoint, step: Step) -> Iterator[Delivery]:
        """Due rows that the sender does not have, in the queue's order; moves the cursor along."""
        prefix, cursors = endpoint.prefix, self._ready.cursors
        start = max(prefix, cursors.get(endpoint.place, b""))
        for key, _ in step.store.queue.range(start, queue.until(prefix, step.now)):
            cursors[endpoint.place] = key
            id_ = queue.id_of(key, prefix)
            row = None if id_ in self._in_flight else step.rows.get(id_)
            if row is not None:
                yield row


def _with_messages(rows: Iterator[Delivery], step: Step) -> Iterator[tuple[Delivery, Outgoing]]:
    """Rows with their messages.

    A row whose message was deleted (a retry came after months) waits for the sweep to end it.
    """
    for row in rows:
        message = step.store.message(row.tenant_id, row.message_id)
        if message is not None:
            yield row, message


def _slot(endpoint: Endpoint) -> Slot:
    return "proven" if endpoint.proven else "unproven"


def _attempt(endpoint: Endpoint, row: Delivery, message: Outgoing, now: int) -> Attempt:
    url = row.url or endpoint.settings.url or ""
    timeout = endpoint.settings.timeout_seconds
    return Attempt(row, message, endpoint.record, url, timeout, endpoint.probes(now))
