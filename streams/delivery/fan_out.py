"""Makes the rows of messages: at once while they are few, else in parts by the punctuations.

A transaction of tens of thousands of rows would not end in time, and would then be tried again for
ever; and everything else of the partition waits for a step to end. So a step makes a bounded number
of rows. A message that finds no room is kept with its place, and so is every later message of its
tenant until the first has all its rows: order in lanes holds. Tenants take turns, a part each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import islice

from streams.delivery.endpoint import Endpoint
from streams.delivery.store import FAN_OUT, DeliveryStore
from streams.delivery.transitions import Transitions
from streams.serde.delivery_records import Outgoing
from streams.serde.keys import SEPARATOR, after, join, split

_IN_A_STEP = 2_000
_IN_A_PART = 50
"""A message that needs more rows than a part has is always made in parts."""

_NUMBER = struct.Struct(">Q")


class FanOut:
    """What one partition still has to make rows of."""

    def __init__(self) -> None:
        self._behind: dict[str, None] = {}  # the tenants whose messages wait, in their turns
        self._made = self._kept = 0  # rows: made in this transaction; to make of what was kept

    def restored(self, store: DeliveryStore) -> None:
        """Look whose messages wait, after a start or a rollback."""
        self._behind = dict.fromkeys(_waiting(store))
        self._made = self._kept = 0

    def committed(self) -> None:
        self._made = 0

    def take(self, message: Outgoing, happened: int, steps: Transitions) -> None:
        """Make the rows of a message that happened at a broker's time, or keep it for later."""
        endpoints = _wanting(message, happened, steps)
        if not endpoints:
            return
        behind, wide = message.tenant_id in self._behind, len(endpoints) > _IN_A_PART
        if not (behind or wide) and self._made + len(endpoints) <= _IN_A_STEP:
            self._made += len(endpoints)
            steps.enter(message, endpoints)
            return
        _keep(message, happened, steps.store)
        self._kept += 0 if wide else len(endpoints)
        self._behind.setdefault(message.tenant_id)

    def go_on(self, steps: Transitions) -> bool:
        """Make the next part of the rows; returns whether there were any to make.

        There are more parts, as the step has room, for messages of few rows that were kept. A
        tenant that fell behind once would otherwise stay behind for as long as messages come.
        """
        if not self._behind:
            return False
        made = self._next_part(steps)
        most = min(self._kept + _IN_A_PART, _IN_A_STEP - self._made)
        while self._behind and made + _IN_A_PART <= most:
            made += self._next_part(steps)
        self._made, self._kept = self._made + made, 0
        return made > 0

    def _next_part(self, steps: Transitions) -> int:
        tenant_id = next(iter(self._behind))
        del self._behind[tenant_id]
        made, first = 0, _places(tenant_id)
        waiting = steps.store.queue.range(first, after(first))
        for key, value in list(islice(waiting, _IN_A_PART)):
            made += _part(tenant_id, key, value, _IN_A_PART - made, steps)
            if made >= _IN_A_PART:
                break
        if made:
            self._behind[tenant_id] = None
        return made


def _waiting(store: DeliveryStore) -> Iterator[str]:
    """The tenants with messages that wait; there may be a million messages of one."""
    start, end = FAN_OUT, after(FAN_OUT)
    while first := next(store.queue.range(start, end), None):
        tenant_id = first[0][len(FAN_OUT) :].partition(SEPARATOR)[0].decode()
        yield tenant_id
        start = after(_places(tenant_id))


def _places(tenant_id: str) -> bytes:
    return FAN_OUT + join(tenant_id, "")


def _keep(message: Outgoing, happened: int, store: DeliveryStore) -> None:
    store.put_message(message)
    key = _places(message.tenant_id) + _NUMBER.pack(store.next_order())
    store.queue.put(key, _NUMBER.pack(happened) + join(message.message_id, ""))


def _part(tenant_id: str, key: bytes, value: bytes, most: int, steps: Transitions) -> int:
    """Make rows of one message; the value keeps the last endpoint that has its row."""
    (happened,) = _NUMBER.unpack_from(value)
    message_id, last = split(value[_NUMBER.size :])
    message = steps.store.message(tenant_id, message_id)
    wanting = _wanting(message, happened, steps) if message else ()
    left = sorted((each for each in wanting if each.id > last), key=lambda each: each.id)
    part = left[:most]
    if message is not None:
        steps.enter(message, part)
    if len(part) < len(left):
        steps.store.queue.put(key, value[: _NUMBER.size] + join(message_id, part[-1].id))
    else:
        steps.store.queue.delete(key)
    return max(1, len(part))


def _wanting(message: Outgoing, happened: int, steps: Transitions) -> Sequence[Endpoint]:
    found = [each for each in steps.endpoints.wanting(message) if each.since <= happened]
    if message.kind != "notice":
        return found
    # Endpoints disabled together must not each keep a notice of every other.
    return [each for each in found if each.state.disabled_because is None]
