"""Makes the rows of messages: at once while they are few, else in parts by the punctuations.

A transaction of tens of thousands of rows would not end in time, and would then be tried again for
ever. So a step makes a bounded number of rows. A message that finds no room is kept with its
place, and so is every message after it, until the first has all its rows: order in lanes holds.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import islice

from streams.delivery.endpoint import Endpoint
from streams.delivery.store import FAN_OUT, DeliveryStore
from streams.delivery.transitions import Transitions
from streams.serde.delivery_records import Outgoing
from streams.serde.keys import join, split

_IN_A_STEP = 2_000
_IN_A_PART = 500
_NUMBER = struct.Struct(">Q")


class FanOut:
    """What one partition still has to make rows of."""

    def __init__(self) -> None:
        self._behind = False
        self._made = 0

    def restored(self, store: DeliveryStore) -> None:
        """Look whether messages wait, after a start or a rollback."""
        self._behind = any(True for _ in store.marked(FAN_OUT))
        self._made = 0

    def committed(self) -> None:
        self._made = 0

    def take(self, message: Outgoing, happened: int, steps: Transitions) -> None:
        """Make the rows of a message that happened at a broker's time, or keep it for later."""
        endpoints = _wanting(message, happened, steps)
        if not endpoints:
            return
        if self._behind or self._made + len(endpoints) > _IN_A_STEP:
            self._keep(message, happened, steps.store)
        else:
            self._made += len(endpoints)
            steps.enter(message, endpoints)

    def go_on(self, steps: Transitions) -> bool:
        """Make the next part of the rows; returns whether there were any to make."""
        if not self._behind:
            return False
        made = 0
        for key, value in _first(steps.store):
            made += self._part(key, value, _IN_A_PART - made, steps)
            if made >= _IN_A_PART:
                return True
        self._behind = any(True for _ in steps.store.marked(FAN_OUT))
        return True

    def _keep(self, message: Outgoing, happened: int, store: DeliveryStore) -> None:
        self._behind = True
        store.put_message(message)
        place = join(message.tenant_id, message.message_id, "")
        store.queue.put(FAN_OUT + _NUMBER.pack(store.next_order()), _NUMBER.pack(happened) + place)

    def _part(self, key: bytes, value: bytes, most: int, steps: Transitions) -> int:
        """Make rows of one message; the value keeps the last endpoint that has its row."""
        (happened,) = _NUMBER.unpack_from(value)
        tenant_id, message_id, last = split(value[_NUMBER.size :])
        message = steps.store.message(tenant_id, message_id)
        wanting = _wanting(message, happened, steps) if message else ()
        left = sorted((each for each in wanting if each.id > last), key=lambda each: each.id)
        part = left[:most]
        if message is not None:
            steps.enter(message, part)
        if len(part) < len(left):
            place = join(tenant_id, message_id, part[-1].id)
            steps.store.queue.put(FAN_OUT + key, _NUMBER.pack(happened) + place)
        else:
            steps.store.queue.delete(FAN_OUT + key)
        return max(1, len(part))


def _wanting(message: Outgoing, happened: int, steps: Transitions) -> Sequence[Endpoint]:
    found = [each for each in steps.endpoints.wanting(message) if each.since <= happened]
    if message.kind != "notice":
        return found
    # Endpoints disabled together must not each keep a notice of every other.
    return [each for each in found if each.state.disabled_because is None]


def _first(store: DeliveryStore) -> list[tuple[bytes, bytes]]:
    return list(islice(store.marked(FAN_OUT), _IN_A_PART))
