"""How far a stage is behind its inputs, and whether one of them is held up."""

from __future__ import annotations

import time
from collections.abc import Sequence

from streams.runtime import metrics
from streams.runtime.end_offsets import EndOffsets
from streams.runtime.processor import Record
from streams.runtime.stalled_inputs import BlockedInputs

_EVERY_SECONDS = 2.0


class Lag:
    """Measures from time to time, from end offsets that are read without waiting."""

    def __init__(self, stage: str, ends: EndOffsets, blocked: BlockedInputs) -> None:
        self._stage = stage
        self._ends = ends
        self._blocked = blocked
        self._due = 0.0
        self._newest: int | None = None

    def measure(self, records: Sequence[Record]) -> None:
        """Measure if it is due; called each round with the records that it processed."""
        if records:
            self._newest = records[-1].timestamp
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _EVERY_SECONDS
        lag = self._ends.lag()
        self._ends.ask()
        self._blocked.look(self._ends.inputs)
        if lag is not None:
            behind = lag > 0 and self._newest is not None
            age = time.time() - (self._newest or 0) / 1000 if behind else 0.0
            metrics.LAG_RECORDS.labels(self._stage).set(lag)
            metrics.LAG_SECONDS.labels(self._stage).set(max(0.0, age))
