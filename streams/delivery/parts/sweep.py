"""Goes over all rows and messages, a part at a time, to end and delete those that are too old."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from streams.delivery import metrics
from streams.delivery.part import Part
from streams.delivery.settling import expires_at
from streams.delivery.shared import Shared
from streams.delivery.step import Step
from streams.delivery.store import MESSAGE
from streams.serde.codec import DELIVERY, OUTGOING
from streams.serde.delivery_records import Delivery
from streams.serde.delivery_states import DEAD, EXPIRING
from streams.serde.keys import after

_PART = 100
_PART_SECONDS, _ROUND_SECONDS = 0.1, 600.0
_ROWS_KEPT, _MESSAGES_KEPT = 2, 4
"""How many times as old as a pending row may become: rows and messages are deleted then."""


class Sweep(Part):
    """One round over the rows, then over the messages, then a pause.

    The next round ends what was undone in this one.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._row = b""
        self._message: bytes | None = None
        self._due = 0.0

    def tick(self, step: Step) -> None:
        """Look at the next part."""
        now = step.ctx.monotonic
        if now < self._due:
            return
        self._due = now + _PART_SECONDS
        self._rows(step) if self._message is None else self._messages(step)

    def rests(self, until: int) -> bool:
        """Whether it is between two rounds."""
        return self._message is None and not self._row

    def _rows(self, step: Step) -> None:
        part = list(islice(step.rows.behind(self._row), _PART))
        for _, value in part:
            _age(DELIVERY.decode(value), step)
        if len(part) == _PART:
            self._row = part[-1][0]
        else:
            self._row, self._message = b"", MESSAGE

    def _messages(self, step: Step) -> None:
        store, oldest = step.store.queue, step.now - _MESSAGES_KEPT * step.shared.rules.keep_ms
        part = list(islice(store.range(self._message or MESSAGE, after(MESSAGE)), _PART))
        old = [key for key, value in part if OUTGOING.read(value)["created_at"] < oldest]
        for key in old:
            store.delete(key)
        if len(part) == _PART:
            self._message = part[-1][0] + b"\0"
        else:
            self._message, self._due = None, step.ctx.monotonic + _ROUND_SECONDS


def _age(row: Delivery, step: Step) -> None:
    """End a row that is too old to be sent, and delete one that is too old to be kept."""
    if row.status in EXPIRING and step.now >= expires_at(row, step.shared.rules):
        metrics.EXPIRED.inc()
        step.rows.put(
            replace(
                row,
                status=DEAD,
                last_error="too_old",
                parked_because=None,
                next_attempt_at=None,
                updated_at=step.now,
            ),
            row,
        )
        return
    keep = step.shared.rules.keep_ms
    if step.now - row.created_at >= _ROWS_KEPT * keep and step.now - row.updated_at >= keep:
        step.rows.delete(row)
