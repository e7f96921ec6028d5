"""The order in which an endpoint's pending rows are sent, as keys of the store `queue`.

- `q` tenant, endpoint, due time, id: a row that may be sent from its due time on
- `h` tenant, endpoint, lane: the one row of a lane that has an entry `q`
- `l` tenant, endpoint, lane, order, id: a row that waits for those before it in its lane

A row without a lane always has an entry `q`. A lane is a digest, so no key part holds a separator.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice

from streams.serde.delivery_records import Delivery
from streams.serde.keys import SEPARATOR, after, join
from streams.state.store import KeyValueStore

_SENDABLE, _HEAD, _WAITING = b"q", b"h", b"l"
_NUMBER = struct.Struct(">Q")
LATEST = 2**63


def entry(row: Delivery) -> bytes:
    """The key `q` of a pending row."""
    due = _NUMBER.pack(row.next_attempt_at or 0)
    return sendable(row.tenant_id, row.endpoint_id) + due + row.delivery_id.encode()


def sendable(tenant_id: str, endpoint_id: str) -> bytes:
    """What all keys `q` of an endpoint begin with."""
    return _SENDABLE + join(tenant_id, endpoint_id) + SEPARATOR


def due_of(key: bytes, prefix: bytes) -> int:
    """The due time in a key `q`."""
    due: int = _NUMBER.unpack_from(key, len(prefix))[0]
    return due


def id_of(key: bytes, prefix: bytes) -> str:
    """The row's id in a key `q`."""
    return key[len(prefix) + _NUMBER.size :].decode()


def until(prefix: bytes, due: int) -> bytes:
    """The first key `q` behind those that are due at a time in milliseconds."""
    return prefix + _NUMBER.pack(min(due, LATEST) + 1)


def last_part(key: bytes) -> str:
    """The last part of a joined key."""
    return key.rpartition(SEPARATOR)[2].decode()


def add(queue: KeyValueStore, row: Delivery) -> bool:
    """Put a pending row in the queue; returns whether no other row of its lane precedes it."""
    if row.lane is not None:
        head = _head(row)
        first = queue.get(head)
        if first not in (None, row.delivery_id.encode()):
            queue.put(_place(row), b"")
            return False
        queue.put(head, row.delivery_id.encode())
    queue.put(entry(row), b"")
    return True


def put_off(queue: KeyValueStore, before: Delivery, after: Delivery) -> bool:
    """Change a row's due time, and keep its place in its lane; returns whether it is the first.

    Both are the same row, as it was put in and as it is now.
    """
    if before.lane is not None and queue.get(_head(before)) != before.delivery_id.encode():
        return False
    queue.delete(entry(before))
    queue.put(entry(after), b"")
    return True


def remove(queue: KeyValueStore, row: Delivery) -> str | None:
    """Take a row out, as it was put in; returns the id of the row that is first in its lane now."""
    queue.delete(entry(row))
    if row.lane is None:
        return None
    if queue.get(_head(row)) != row.delivery_id.encode():
        queue.delete(_place(row))
        return None
    lane = _lane(row)
    for key, _ in queue.range(lane, after(lane)):
        successor = key[len(lane) + _NUMBER.size :]
        queue.delete(key)
        queue.put(_head(row), successor)
        return successor.decode()
    queue.delete(_head(row))
    return None


def first_of_lane(queue: KeyValueStore, row: Delivery) -> str | None:
    """The id of the row that is first in a row's lane, if it has a lane."""
    first = None if row.lane is None else queue.get(_head(row))
    return None if first is None else first.decode()


def step_back(queue: KeyValueStore, first: Delivery) -> None:
    """Put the first row of a lane back in its place in the lane, which has no first row then."""
    queue.delete(entry(first))
    queue.delete(_head(first))
    queue.put(_place(first), b"")


def rows_of(queue: KeyValueStore, tenant_id: str, endpoint_id: str, most: int) -> Iterator[str]:
    """Ids of rows of an endpoint that are in the queue; those that wait in a lane come first."""
    waiting = _WAITING + join(tenant_id, endpoint_id) + SEPARATOR
    found = [key for key, _ in islice(queue.range(waiting, after(waiting)), most)]
    for key in found:
        digest = key.index(SEPARATOR, len(waiting)) + 1
        yield key[digest + _NUMBER.size :].decode()
    ready = sendable(tenant_id, endpoint_id)
    keys = [key for key, _ in islice(queue.range(ready, after(ready)), most - len(found))]
    yield from (id_of(key, ready) for key in keys)


def _head(row: Delivery) -> bytes:
    return _HEAD + join(row.tenant_id, row.endpoint_id, row.lane or "")


def _lane(row: Delivery) -> bytes:
    return _WAITING + join(row.tenant_id, row.endpoint_id, row.lane or "") + SEPARATOR


def _place(row: Delivery) -> bytes:
    return _lane(row) + _NUMBER.pack(row.order) + row.delivery_id.encode()
