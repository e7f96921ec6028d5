"""Chooses the rows to send now: fairly among tenants, and within the bounds of each endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice

from streams.delivery import queue
from streams.delivery.attempts import Attempt
from streams.delivery.endpoint import Endpoint
from streams.delivery.handed import Handed
from streams.delivery.pace import Pace
from streams.delivery.rotation import Place, Rotation
from streams.delivery.slots import Slot
from streams.delivery.transitions import Transitions
from streams.serde.delivery_records import Delivery, Outgoing
from streams.serde.keys import after

_AT_ONCE = 64
"""How many rows of one endpoint are taken in one turn, and how many tests of all."""
_PROBES = 256
"""Among how many due rows the probe of an open circuit is looked for."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Takes due rows of one partition out of the queue's order, and marks them as handed over.

    Endpoints whose last attempt failed, or that had none yet, wait in a rotation of their own, of
    which each step looks at as many as may begin: there may be thousands.
    """

    rotation: Rotation
    handed: Handed
    unproven: Rotation = field(default_factory=Rotation)
    pace: Pace = field(default_factory=Pace)

    def choose(self, steps: Transitions) -> list[Attempt]:
        """The attempts to begin now."""
        chosen: list[Attempt] = []
        served: list[Endpoint] = []
        for endpoint in _open(self.rotation.turns(steps.now), steps):
            if not endpoint.proven:
                self.unproven.wake(endpoint)
            elif self._serve(endpoint, steps, chosen):
                served.append(endpoint)
        first = len(chosen)
        for endpoint in _open(self.unproven.turns(steps.now, self.pace.room(steps.now)), steps):
            if self._serve(endpoint, steps, chosen):
                served.append(endpoint)
        self.pace.begun(len(chosen) - first)
        for endpoint in served:  # behind those that got no turn
            self.rotation.wake(endpoint)
        return chosen

    def _serve(self, endpoint: Endpoint, steps: Transitions, chosen: list[Attempt]) -> bool:
        """Choose as many rows of an endpoint as it may have; returns whether there may be more."""
        room = self._room(endpoint, steps)
        return room > 0 and self._take(endpoint, room, steps, chosen)

    def tests(self, tests: dict[str, int], steps: Transitions) -> list[Attempt]:
        """The tests to begin now; they wait for nothing but their time, a slot and the sender.

        Each step looks at a few, and puts them behind the others: there may be thousands.
        """
        chosen: list[Attempt] = []
        due = (id_ for id_, at in tests.items() if at <= steps.now and id_ not in self.handed)
        for id_ in list(islice(due, _AT_ONCE)):
            tests[id_] = tests.pop(id_)
            row = steps.store.row(id_)
            endpoint = row and steps.endpoints.get(row.tenant_id, row.endpoint_id)
            message = row and steps.store.message(row.tenant_id, row.message_id)
            if row and message and endpoint and self._slots(endpoint) > 0:
                chosen.append(self._attempt(endpoint, row, message, steps))
        return chosen

    def _slots(self, endpoint: Endpoint) -> int:
        return self.handed.slots.room(_slot(endpoint), endpoint.tenant_id)

    def _room(self, endpoint: Endpoint, steps: Transitions) -> int:
        free = self._slots(endpoint)
        if free <= 0:
            self.rotation.wake(endpoint)
            return 0
        room = endpoint.room(self.handed.count((endpoint.tenant_id, endpoint.id)), steps.now)
        if room <= 0 and endpoint.free_at(steps.now) > steps.now:
            self.rotation.sleep(endpoint, endpoint.free_at(steps.now))
        return min(room, free, _AT_ONCE)

    def _take(
        self, endpoint: Endpoint, room: int, steps: Transitions, chosen: list[Attempt]
    ) -> bool:
        """Add due rows of an endpoint to `chosen`; returns whether there may be more."""
        before = len(chosen)
        for row, message in islice(_with_messages(self._in_turn(endpoint, steps), steps), room):
            chosen.append(self._attempt(endpoint, row, message, steps))
            if self._slots(endpoint) <= 0:  # messages may be large
                break
        taken = len(chosen) - before
        steps.endpoints.note_course(endpoint)
        endpoint.sent(taken, steps.now)
        if taken == room or self._slots(endpoint) <= 0:
            return True
        later = queue.until(endpoint.prefix, steps.now)
        for key, _ in steps.store.queue.range(later, after(endpoint.prefix)):
            self.rotation.sleep(endpoint, queue.due_of(key, endpoint.prefix))
            break
        return False

    def _attempt(
        self, endpoint: Endpoint, row: Delivery, message: Outgoing, steps: Transitions
    ) -> Attempt:
        place, size = (endpoint.tenant_id, endpoint.id), len(message.data or b"")
        self.handed.add(row.delivery_id, place, _slot(endpoint), size)
        attempt = _attempt(endpoint, row, message, steps.now)
        return replace(attempt, wanted=partial(steps.endpoints.takes, attempt))

    def _in_turn(self, endpoint: Endpoint, steps: Transitions) -> Iterator[Delivery]:
        """Due rows that the sender does not have, in the order in which they are sent.

        The probe of an open circuit is a row that a person retried, otherwise one of those that
        were attempted least: a message on which the receiver fails each time holds up no other. Of
        each lane only the first is there.
        """
        due = self._due(endpoint, steps)
        if not endpoint.probes(steps.now):
            return due
        cursor = endpoint.cursor
        rows = list(islice(due, _PROBES))
        endpoint.cursor = cursor  # those that are passed over are not behind it
        rows.sort(key=lambda row: (row.attempts, steps.rules.chance()))
        return chain(self._retried(endpoint, steps), rows)

    def _retried(self, endpoint: Endpoint, steps: Transitions) -> Iterator[Delivery]:
        """The row that a person wants to be the probe, once, if it may be sent now."""
        first, endpoint.first = endpoint.first, ""
        row = steps.store.row(first) if first and first not in self.handed else None
        if row is not None and steps.store.queue.get(queue.entry(row)) is not None:
            yield row

    def _due(self, endpoint: Endpoint, steps: Transitions) -> Iterator[Delivery]:
        """Due rows that the sender does not have, in the queue's order; moves the cursor along."""
        prefix, store = endpoint.prefix, steps.store
        start = max(prefix, endpoint.cursor)
        for key, _ in store.queue.range(start, queue.until(prefix, steps.now)):
            endpoint.cursor = key
            id_ = queue.id_of(key, prefix)
            row = None if id_ in self.handed else store.row(id_)
            if row is not None:
                yield row


def _with_messages(
    rows: Iterator[Delivery], steps: Transitions
) -> Iterator[tuple[Delivery, Outgoing]]:
    """Rows with their messages.

    A row whose message was deleted (a retry came after months) waits for the sweep to end it.
    """
    for row in rows:
        message = steps.store.message(row.tenant_id, row.message_id)
        if message is not None:
            yield row, message


def _open(places: Sequence[Place], steps: Transitions) -> Iterator[Endpoint]:
    """The endpoints at these places to which something may be sent."""
    for tenant_id, id_ in places:
        endpoint = steps.endpoints.get(tenant_id, id_)
        closed = endpoint is None or endpoint.closed_because or endpoint.held
        if endpoint is not None and not closed and tenant_id not in steps.endpoints.paused:
            yield endpoint


def _slot(endpoint: Endpoint) -> Slot:
    return "proven" if endpoint.proven else "unproven"


def _attempt(endpoint: Endpoint, row: Delivery, message: Outgoing, now: int) -> Attempt:
    url = row.url or endpoint.settings.url or ""
    timeout = endpoint.settings.timeout_seconds
    return Attempt(row, message, endpoint.record, url, timeout, endpoint.probes(now))
