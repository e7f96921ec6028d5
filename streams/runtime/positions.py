"""The positions of a task: committed ones, provisional ones, and those after skipped records.

A position is the next offset to process of an input (logical topic). Skipping a record changes
nothing else, so the position after it waits for another transaction to go with, for a short time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from streams.runtime.clock import Clock
from streams.runtime.processor import Record

_TOPIC, _OFFSET = itemgetter(0), itemgetter(2)  # of a record; access by name costs double
_WAIT_SECONDS = 1.0
"""How long the positions after skipped records wait for a transaction to go with."""


class Positions:
    """The positions of one task in its inputs."""

    def __init__(self, committed: Mapping[str, int], clock: Clock) -> None:
        self._current = dict(committed)
        self._committed = dict(committed)
        self._passed: dict[str, int] = {}
        self._passed_since = 0.0
        self._clock = clock

    @property
    def current(self) -> dict[str, int]:
        """The position of each input, after every record that was handled or skipped."""
        if not self._passed:
            return self._current
        passed = self._passed
        return {topic: max(at, passed.get(topic, 0)) for topic, at in self._current.items()}

    @property
    def due(self) -> bool:
        """Whether the positions must be committed, even if nothing else changed."""
        waited = bool(self._passed) and self._clock.monotonic() - self._passed_since > _WAIT_SECONDS
        return waited or self._current != self._committed

    def handled(self, records: Sequence[Record]) -> None:
        """Move past these records, which are in the order of their topics."""
        last = dict(zip(map(_TOPIC, records), map(_OFFSET, records), strict=True))
        self._current.update({topic: offset + 1 for topic, offset in last.items()})

    def pass_by(self, records: Iterable[Record]) -> None:
        """Move past these records, which need no transaction of their own."""
        if not self._passed:
            self._passed_since = self._clock.monotonic()
        self._passed.update({record.topic: record.offset + 1 for record in records})

    def committed(self) -> None:
        """Note that the current positions are committed."""
        self._current = dict(self.current)
        self._passed.clear()
        self._committed = dict(self._current)

    def rollback(self) -> None:
        """Return to the positions of the last commit."""
        self._current = dict(self._committed)
        self._passed.clear()
