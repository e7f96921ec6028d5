"""What the parts share of the store `queue` during one step, in values instead of bytes.

The store `queue` holds everything but the rows. Each part names its own key spaces; `KEYS` are
those that they share.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import takewhile

import structlog

from streams.closed_tenants import KEYS as CLOSED_TENANTS
from streams.delivery.endpoint import Endpoint, made
from streams.delivery.rows import TEST
from streams.errors import PoisonRecord
from streams.runtime.processor import Context
from streams.serde.codec import ENDPOINT_STATE, OUTGOING, TENANT
from streams.serde.decoded_cache import DecodedCache
from streams.serde.delivery_records import EndpointState, Outgoing
from streams.serde.keys import after, join, split

log = structlog.get_logger(__name__)

MESSAGE, ASKED = b"m", b"D"
_SETTINGS, _STATE, _ORDER, _WATERMARK = b"E", b"S", b"o", b"w"
KEYS = CLOSED_TENANTS | {
    b"q": "rows that may be sent from their due time on (`queue.py`)",
    b"h": "the first row of each lane",
    b"l": "rows that wait in their lane",
    TEST: "unfinished tests",
    _SETTINGS: "when each endpoint was first seen, and its settings",
    _STATE: "the states of endpoints",
    ASKED: "when each recovery of an endpoint was asked for, so that it is not begun again",
    MESSAGE: "messages, each shared by its rows",
    _ORDER: "the last number given to a row for the order in its lane",
    _WATERMARK: "the highest time of an event, job's end or approval that was processed",
}
ORDER_BITS = 20
"""How many bits of a row's number follow those of its time in milliseconds."""
_NUMBER = struct.Struct(">Q")
_MOST_CACHED = 2_000

ENDPOINTS_TOPIC = "deliveries.endpoints"


class DeliveryStore:
    """Reads and writes the store `queue` of one task."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.queue = ctx.store("queue")
        self._messages = DecodedCache(OUTGOING, _MOST_CACHED)  # most are read within milliseconds

    def message(self, tenant_id: str, message_id: str) -> Outgoing | None:
        value = self.queue.get(MESSAGE + join(tenant_id, message_id))
        return None if value is None else self._messages.decode(message_id, value)

    def put_message(self, message: Outgoing) -> None:
        """Write a message unless it is there: every attempt sends what the first one sent."""
        key = MESSAGE + join(message.tenant_id, message.message_id)
        if self.queue.get(key) is None:
            self.queue.put(key, self._messages.encode(message.message_id, message))

    def put_state(self, state: EndpointState) -> None:
        """Write an endpoint's state and publish it."""
        value, key = ENDPOINT_STATE.encode(state), join(state.tenant_id, state.endpoint_id)
        self.queue.put(_STATE + key, value)
        self.ctx.forward(ENDPOINTS_TOPIC, key, value)

    def put_settings(self, endpoint: Endpoint) -> None:
        """Write an endpoint's settings, and when it was first seen."""
        value = _NUMBER.pack(endpoint.since) + TENANT.encode(endpoint.record)
        self.queue.put(_SETTINGS + join(*endpoint.place), value)

    def endpoints(self) -> Iterator[Endpoint]:
        """All endpoints as they are stored; one that cannot be used is logged and left out."""
        states = {key: ENDPOINT_STATE.decode(value) for key, value in self.marked(_STATE)}
        for key, value in self.marked(_SETTINGS):
            try:
                yield made(value[_NUMBER.size :], _number(value[: _NUMBER.size]), states.get(key))
            except PoisonRecord as error:
                tenant_id, endpoint_id = split(key)
                log_unusable(tenant_id, endpoint_id, error)

    def drop_endpoint(self, tenant_id: str, endpoint_id: str) -> None:
        """Forget an endpoint, and publish that."""
        key = join(tenant_id, endpoint_id)
        self.queue.delete(_SETTINGS + key)
        self.queue.delete(_STATE + key)
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

    def next_order(self, happened: int) -> int:
        """A number higher than every one before it in this partition, and than its time's."""
        order = max(_number(self.queue.get(_ORDER)) + 1, happened << ORDER_BITS)
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


def log_unusable(tenant_id: str, endpoint_id: str, error: PoisonRecord) -> None:
    """Report a record of an endpoint that is ignored."""
    log.error(
        "an endpoint's record cannot be used, and is ignored: set the endpoint again",
        tenant_id=tenant_id,
        endpoint_id=endpoint_id,
        reason=str(error),
    )
