"""The rows of one partition and the queue of the pending ones: every change goes through `put`.

The store `deliveries` holds the rows by id; its changelog is the public topic of that name. The
store `queue` holds their order (`queue.py`), and the unfinished tests, which wait in no queue.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence

from streams.delivery import queue
from streams.delivery.change import Change
from streams.runtime.processor import Context
from streams.serde.codec import DELIVERY
from streams.serde.decoded_cache import DecodedCache
from streams.serde.delivery_records import Delivery
from streams.serde.delivery_states import PENDING
from streams.serde.keys import after, join

TEST = b"t"
_MOST_CACHED = 2_000


class Rows:
    """Reads and writes rows; `changed` is called with each change and with each that is undone.

    `in_flight` are the ids of the rows that the sender has.
    """

    def __init__(
        self, ctx: Context, in_flight: Container[str], changed: Callable[[Change[Delivery]], None]
    ) -> None:
        self._ctx = ctx
        self._rows = ctx.store("deliveries")
        self._queue = ctx.store("queue")
        self._in_flight = in_flight
        self._changed = changed
        self._cache = DecodedCache(DELIVERY, _MOST_CACHED)  # most are read within milliseconds

    def get(self, delivery_id: str) -> Delivery | None:
        value = self._rows.get(delivery_id.encode())
        return None if value is None else self._cache.decode(delivery_id, value)

    def exist(self, ids: Sequence[str]) -> list[bool]:
        """For each id, whether there is such a row."""
        return [value is not None for value in self._rows.get_many([id_.encode() for id_ in ids])]

    def behind(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The rows that follow a key, by id, as they are stored."""
        return self._rows.range(key + b"\0" if key else b"", b"\xff")

    def put(self, row: Delivery, before: Delivery | None) -> None:
        """Write a row, and put it in the queue, take it out, or change its time there.

        `before` is the row as it is stored; None: it is new.
        """
        self._rows.put(row.delivery_id.encode(), self._cache.encode(row.delivery_id, row))
        self._follow(Change(before, row, self._requeue(before, row)))

    def delete(self, row: Delivery) -> None:
        """Forget a row."""
        if row.status == PENDING:
            self._leave(row)
        self._rows.delete(row.delivery_id.encode())
        self._follow(Change(row, None))

    def in_queue(self, row: Delivery) -> bool:
        """Whether a row may be sent, now or from its due time on."""
        return self._queue.get(queue.entry(row)) is not None

    def pending_tests(self) -> Iterator[Delivery]:
        """The rows of unfinished tests."""
        for key, _ in self._queue.range(TEST, after(TEST)):
            row = self.get(queue.last_part(key))
            if row is not None:
                yield row

    def pending_of(self, tenant_id: str, endpoint_id: str, most: int, tests: bool) -> list[str]:
        """The ids of pending rows of an endpoint, those of tests only if asked for."""
        ids = list(queue.rows_of(self._queue, tenant_id, endpoint_id, most))
        if tests:
            prefix = TEST + join(tenant_id, endpoint_id, "")
            found = zip(range(most), self._queue.range(prefix, after(prefix)), strict=False)
            ids += [queue.last_part(key) for _, (key, _) in found]
        return ids

    def _requeue(self, before: Delivery | None, row: Delivery) -> bool:
        """Follow a change in the queue; returns whether the row waits behind others."""
        was_pending = before is not None and before.status == PENDING
        if before is not None and was_pending and row.status == PENDING:
            return not row.is_test and not queue.put_off(self._queue, before, row)
        if before is not None and was_pending:
            self._leave(before)
        return row.status == PENDING and not self._join(row)

    def _join(self, row: Delivery) -> bool:
        """Put a row in the queue; returns whether it may be sent."""
        if row.is_test:
            self._queue.put(_test_key(row), b"")
            return True
        self._make_way(row)
        return queue.add(self._queue, row)

    def _make_way(self, row: Delivery) -> None:
        """Have the first row of a lane wait behind one that precedes it, if it still can."""
        first = queue.first_of_lane(self._queue, row)
        ahead = self.get(first) if first is not None and first not in self._in_flight else None
        if ahead is not None and row.order < ahead.order:
            queue.step_back(self._queue, ahead)
            self._follow(Change(ahead, ahead, waits=True))

    def _leave(self, row: Delivery) -> None:
        """Take a row out of the queue; the next one in its lane may be sent then."""
        if row.is_test:
            self._queue.delete(_test_key(row))
            return
        successor = queue.remove(self._queue, row)
        following = self.get(successor) if successor else None
        if following is not None:
            queue.add(self._queue, following)
            self._follow(Change(following, following))

    def _follow(self, change: Change[Delivery]) -> None:
        self._ctx.on_undo(self._changed, change.reversed())
        self._changed(change)


def _test_key(row: Delivery) -> bytes:
    return TEST + join(row.tenant_id, row.endpoint_id, row.delivery_id)
