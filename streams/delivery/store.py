"""The stage's two stores during one step, in values instead of bytes.

The store `deliveries` holds the rows by id; its changelog is the public topic of that name. The
store `queue` holds everything else:

- `E` tenant, endpoint: when the endpoint was first seen, and its settings as they came
- `S` tenant, endpoint: its state
- `T` tenant: one letter for disabled, one for erased
- `m` tenant, message: the message that its rows share
- `P` tenant, endpoint: its rows have to be parked
- `R` tenant, endpoint, time, command: a recovery that is not finished; the value is its command
- `D` tenant, endpoint, command: when a recovery was asked for, so that it is not begun again
- `c` like `R`: the row behind which the recovery goes on
- `X` tenant: its rows and messages have to be deleted
- `t` tenant, endpoint, id: a test that is not finished; the value is the time of its next attempt
- `F` tenant, number: a message that has not all its rows yet (`fan_out.py`)
- `C` tenant: a callback came when its endpoint was not known
- `M` tenant, endpoint: it may have missed something (`history.py`)
- `N` like `M`: the log is read again for it now
- `n`: how far that reading is
- `W` number: a command that waits for the settings that preceded it (`commands.py`)
- `o`: the last number given to a row for the order in its lane
- `w`: the highest time of an event or job's end that was processed
- and the keys of `queue.py`
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator
from itertools import takewhile

from streams.delivery import queue
from streams.runtime.processor import Context
from streams.serde.codec import DELIVERY, ENDPOINT_STATE, OUTGOING
from streams.serde.decoded_cache import DecodedCache
from streams.serde.delivery_records import Delivery, EndpointState, Outgoing
from streams.serde.keys import after, join

ENDPOINT, STATE, TENANT, MESSAGE = b"E", b"S", b"T", b"m"
PARKING, RECOVERY, CURSOR, ERASING, TEST = b"P", b"R", b"c", b"X", b"t"
FAN_OUT, EARLY_CALLBACK, ASKED, COMMAND = b"F", b"C", b"D", b"W"
MISSED, IN_ROUND, ROUND = b"M", b"N", b"n"
_ORDER, _WATERMARK = b"o", b"w"
_NUMBER = struct.Struct(">Q")
_MOST_KNOWN = 2_000

ENDPOINTS_TOPIC = "deliveries.endpoints"


class Known:
    """The rows and messages that a task wrote last; most are read within milliseconds."""

    def __init__(self) -> None:
        self.rows = DecodedCache(DELIVERY, _MOST_KNOWN)
        self.messages = DecodedCache(OUTGOING, _MOST_KNOWN)


class DeliveryStore:
    """Reads and writes both stores of one task."""

    def __init__(self, ctx: Context, known: Known) -> None:
        self.ctx = ctx
        self._known = known
        self.rows = ctx.store("deliveries")
        self.queue = ctx.store("queue")

    def row(self, delivery_id: str) -> Delivery | None:
        value = self.rows.get(delivery_id.encode())
        return None if value is None else self._known.rows.decode(delivery_id, value)

    def put_row(self, row: Delivery) -> None:
        self.rows.put(row.delivery_id.encode(), self._known.rows.encode(row.delivery_id, row))

    def enqueue(self, row: Delivery) -> bytes | None:
        """Write a pending row and put it in the queue; returns its key there if it may be sent."""
        self.put_row(row)
        return queue.add(self.queue, row)

    def make_way(self, row: Delivery, in_flight: Container[str]) -> None:
        """Have the first row of a lane wait behind one that was made before it, if it still can."""
        first = queue.first_of_lane(self.queue, row)
        ahead = self.row(first) if first is not None and first not in in_flight else None
        if ahead is not None and row.order < ahead.order:
            queue.step_back(self.queue, ahead)

    def put_off(self, before: Delivery, after: Delivery) -> bytes | None:
        """Write a row that stays in the queue; returns its key there if it may be sent."""
        self.put_row(after)
        return queue.put_off(self.queue, before, after)

    def dequeue(self, row: Delivery) -> bytes | None:
        """Take a row out of the queue; returns the key of the next in its lane, if there is one."""
        successor = queue.remove(self.queue, row)
        following = self.row(successor) if successor else None
        return queue.add(self.queue, following) if following else None

    def rows_behind(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The rows that follow a key, by id."""
        return self.rows.range(key + b"\0" if key else b"", b"\xff")

    def message(self, tenant_id: str, message_id: str) -> Outgoing | None:
        value = self.queue.get(MESSAGE + join(tenant_id, message_id))
        return None if value is None else self._known.messages.decode(message_id, value)

    def put_message(self, message: Outgoing) -> None:
        """Write a message unless it is there: every attempt sends what the first one sent."""
        key = MESSAGE + join(message.tenant_id, message.message_id)
        if self.queue.get(key) is None:
            self.queue.put(key, self._known.messages.encode(message.message_id, message))

    def put_state(self, state: EndpointState) -> None:
        """Write an endpoint's state and publish it."""
        value, key = ENDPOINT_STATE.encode(state), join(state.tenant_id, state.endpoint_id)
        self.queue.put(STATE + key, value)
        self.ctx.forward(ENDPOINTS_TOPIC, key, value)

    def drop_state(self, tenant_id: str, endpoint_id: str) -> None:
        key = join(tenant_id, endpoint_id)
        self.queue.delete(STATE + key)
        self._forget_asked(tenant_id, endpoint_id, self.ctx.now)
        self.ctx.forward(ENDPOINTS_TOPIC, key, None)

    def asked_before(self, tenant_id: str, endpoint_id: str, command_id: str, keep_ms: int) -> bool:
        """Whether a command came before; notes it, and forgets what is older than `keep_ms`."""
        key = ASKED + join(tenant_id, endpoint_id, command_id)
        if self.queue.get(key) is not None:
            return True
        self._forget_asked(tenant_id, endpoint_id, self.ctx.now - keep_ms)
        self.queue.put(key, _NUMBER.pack(self.ctx.now))
        return False

    def _forget_asked(self, tenant_id: str, endpoint_id: str, until: int) -> None:
        place = ASKED + join(tenant_id, endpoint_id, "")
        # Ids of commands are in the order of time.
        old = takewhile(lambda found: _number(found[1]) <= until, self.marked(place))
        for key, _ in list(old):
            self.queue.delete(place + key)

    def next_order(self) -> int:
        """A number higher than every one before it in this partition."""
        order = _number(self.queue.get(_ORDER)) + 1
        self.queue.put(_ORDER, _NUMBER.pack(order))
        return order

    @property
    def watermark(self) -> int:
        return _number(self.queue.get(_WATERMARK))

    def raise_watermark(self, time: int) -> None:
        """Note the time of what is processed, rounded up, so that few records change it."""
        if time > self.watermark:
            self.queue.put(_WATERMARK, _NUMBER.pack((time // 1000 + 1) * 1000))

    def marked(self, mark: bytes) -> Iterator[tuple[bytes, bytes]]:
        """What stands under one kind of key of `queue`: the key's rest, and the value."""
        for key, value in self.queue.range(mark, after(mark)):
            yield key[len(mark) :], value


def _number(value: bytes | None) -> int:
    return 0 if value is None else int(_NUMBER.unpack(value)[0])
