"""Makes the rows of messages: at once while they are few, else in parts by the punctuations.

A transaction of tens of thousands of rows would not end in time, and would then be tried again for
ever; and everything else of the partition waits for a step to end. So a step makes a bounded number
of rows. A message that finds no room is kept with its place, and so is every later message of its
tenant until the first has all its rows: order in lanes holds. Tenants take turns, a part each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import ClassVar

from streams.delivery.endpoint import Endpoint
from streams.delivery.part import Part
from streams.delivery.shared import Shared
from streams.delivery.step import Step
from streams.delivery.store import DeliveryStore
from streams.serde.delivery_records import Outgoing
from streams.serde.keys import SEPARATOR, after, join, split

_FAN_OUT = b"F"
_IN_A_STEP = 2_000
_IN_A_PART = 50
"""A message that needs more rows than a part has is always made in parts."""

_NUMBER = struct.Struct(">Q")


class FanOut(Part):
    """What one partition still has to make rows of.

    `behind` are the tenants whose messages wait, in their turns.
    """

    keys: ClassVar = {_FAN_OUT: "messages that do not have all their rows yet"}

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.behind: dict[str, None] = {}
        self._made = self._kept = 0  # rows: made in this transaction; to make of what was kept

    def restored(self, store: DeliveryStore) -> None:
        """Look whose messages wait."""
        self.behind = dict.fromkeys(_waiting(store))

    def announced(self, step: Step, message: Outgoing, happened: int) -> None:
        """Make the rows of a message, or keep it for later."""
        endpoints = _wanting(message, happened, step)
        if not endpoints:
            return
        is_behind, wide = message.tenant_id in self.behind, len(endpoints) > _IN_A_PART
        if not (is_behind or wide) and self._made + len(endpoints) <= _IN_A_STEP:
            self._count(step, len(endpoints), self._kept)
            _enter(message, endpoints, happened, step)
            return
        _keep(message, happened, step.store)
        self._count(step, 0, self._kept + (0 if wide else len(endpoints)))
        if not is_behind:
            step.on_undo(self.behind.pop, message.tenant_id, None)
            self.behind[message.tenant_id] = None

    def tick(self, step: Step) -> None:
        """Make the next part of the rows.

        There are more parts, as the step has room, for messages of few rows that were kept. A
        tenant that fell behind once would otherwise stay behind for as long as messages come.
        """
        if not self.behind:
            return
        made = self._next_part(step)
        most = min(self._kept + _IN_A_PART, _IN_A_STEP - self._made)
        while self.behind and made + _IN_A_PART <= most:
            made += self._next_part(step)
        self._count(step, made, 0)

    def rests(self, until: int) -> bool:
        """Whether no tenant is behind."""
        return not self.behind

    def _next_part(self, step: Step) -> int:
        tenant_id = next(iter(self.behind))
        step.on_undo(self.behind.setdefault, tenant_id)
        del self.behind[tenant_id]
        made, first = 0, _kept_of(tenant_id)
        waiting = step.store.queue.range(first, after(first))
        for key, value in list(islice(waiting, _IN_A_PART)):
            made += _part(tenant_id, key, value, _IN_A_PART - made, step)
            if made >= _IN_A_PART:
                break
        if made:
            self.behind[tenant_id] = None
        return made

    def _count(self, step: Step, made: int, kept: int) -> None:
        """Note how many rows were made, and how many are to be made of messages that were kept."""
        step.on_undo(self._set, self._made, self._kept)
        step.ctx.on_commit(self._set, 0, kept)
        self._set(self._made + made, kept)

    def _set(self, made: int, kept: int) -> None:
        self._made, self._kept = made, kept


def _waiting(store: DeliveryStore) -> Iterator[str]:
    """The tenants with messages that wait; there may be a million messages of one."""
    start, end = _FAN_OUT, after(_FAN_OUT)
    while first := next(store.queue.range(start, end), None):
        tenant_id = first[0][len(_FAN_OUT) :].partition(SEPARATOR)[0].decode()
        yield tenant_id
        start = after(_kept_of(tenant_id))


def _kept_of(tenant_id: str) -> bytes:
    return _FAN_OUT + join(tenant_id, "")


def _keep(message: Outgoing, happened: int, store: DeliveryStore) -> None:
    store.put_message(message)
    key = _kept_of(message.tenant_id) + _NUMBER.pack(store.next_order(0))
    store.queue.put(key, _NUMBER.pack(happened) + join(message.message_id, ""))


def _part(tenant_id: str, key: bytes, value: bytes, most: int, step: Step) -> int:
    """Make rows of one message; the value keeps the last endpoint that has its row."""
    (happened,) = _NUMBER.unpack_from(value)
    message_id, last = split(value[_NUMBER.size :])
    message = step.store.message(tenant_id, message_id)
    wanting = _wanting(message, happened, step) if message else ()
    left = sorted((each for each in wanting if each.id > last), key=lambda each: each.id)
    part = left[:most]
    if message is not None:
        _enter(message, part, happened, step)
    if len(part) < len(left):
        step.store.queue.put(key, value[: _NUMBER.size] + join(message_id, part[-1].id))
    else:
        step.store.queue.delete(key)
    return max(1, len(part))


def _wanting(message: Outgoing, happened: int, step: Step) -> Sequence[Endpoint]:
    found = [each for each in step.shared.endpoints.wanting(message) if each.since <= happened]
    if message.kind != "notice":
        return found
    # Endpoints disabled together must not each keep a notice of every other.
    return [each for each in found if each.state.disabled_because is None]


def _enter(message: Outgoing, endpoints: Sequence[Endpoint], happened: int, step: Step) -> None:
    step.enter(message, endpoints, partial(step.store.next_order, happened))
