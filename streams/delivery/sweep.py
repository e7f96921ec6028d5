"""Goes over all rows and messages, a part at a time, to end and delete those that are too old."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from streams.delivery import metrics
from streams.delivery.settling import expires_at
from streams.delivery.store import MESSAGE
from streams.delivery.transitions import Transitions
from streams.serde.codec import DELIVERY, OUTGOING
from streams.serde.delivery_records import Delivery
from streams.serde.delivery_states import DEAD, EXPIRING
from streams.serde.keys import after

_PART = 100
_ROUND_SECONDS = 600.0
_ROWS_KEPT, _MESSAGES_KEPT = 2, 4
"""How many times as old as a pending row may become: rows and messages are deleted then."""


class Sweep:
    """One round over the rows, then over the messages, then a pause."""

    def __init__(self) -> None:
        self._row = b""
        self._message: bytes | None = None
        self._due = 0.0

    def go_on(self, steps: Transitions) -> bool:
        """Look at the next part; returns whether anything was written."""
        if steps.store.ctx.monotonic < self._due:
            return False
        return self._rows(steps) if self._message is None else self._messages(steps)

    def _rows(self, steps: Transitions) -> bool:
        part = list(islice(steps.store.rows_behind(self._row), _PART))
        changed = [_aged(DELIVERY.decode(value), steps) for _, value in part]
        if len(part) == _PART:
            self._row = part[-1][0]
        else:
            self._row, self._message = b"", MESSAGE
        return any(changed)

    def _messages(self, steps: Transitions) -> bool:
        store, oldest = steps.store.queue, steps.now - _MESSAGES_KEPT * steps.rules.keep_ms
        part = list(islice(store.range(self._message or MESSAGE, after(MESSAGE)), _PART))
        old = [key for key, value in part if OUTGOING.read(value)["created_at"] < oldest]
        for key in old:
            store.delete(key)
        if len(part) == _PART:
            self._message = part[-1][0] + b"\0"
        else:
            self._message, self._due = None, steps.store.ctx.monotonic + _ROUND_SECONDS
        return bool(old)


def _aged(row: Delivery, steps: Transitions) -> bool:
    if row.status in EXPIRING and steps.now >= expires_at(row, steps.rules):
        metrics.EXPIRED.inc()
        ended = replace(
            row,
            status=DEAD,
            last_error="too_old",
            parked_because=None,
            next_attempt_at=None,
            updated_at=steps.now,
        )
        steps.move(row, ended)
        return True
    keep = steps.rules.keep_ms
    if steps.now - row.created_at >= _ROWS_KEPT * keep and steps.now - row.updated_at >= keep:
        steps.delete(row)
        return True
    return False
