"""The positions of a task: committed ones, provisional ones, and those behind records passed by.

A position is the next offset to process of an input (logical topic). Records that are passed by
change nothing else, so the positions behind them wait for a transaction to go with, for a moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from streams.runtime.clock import Clock
from streams.runtime.processor import Record

_TOPIC, _OFFSET = itemgetter(0), itemgetter(2)  # of a record; by name costs double
_WAIT_SECONDS = 1.0
"""So long the positions behind records passed by wait for a transaction to go with."""


class Positions:
    """Where one task stands in its inputs."""

    def __init__(self, committed: Mapping[str, int], clock: Clock) -> None:
        self._current = dict(committed)
        self._committed = dict(committed)
        self._passed: dict[str, int] = {}
        self._passed_since = 0.0
        self._clock = clock

    @property
    def current(self) -> dict[str, int]:
        """By input, behind what was handled and what was passed by."""
        if not self._passed:
            return self._current
        passed = self._passed
        return {topic: max(at, passed.get(topic, 0)) for topic, at in self._current.items()}

    @property
    def due(self) -> bool:
        """Whether they are to be committed, even if nothing else is."""
        waited = bool(self._passed) and self._clock.monotonic() - self._passed_since > _WAIT_SECONDS
        return waited or self._current != self._committed

    def handled(self, records: Sequence[Record]) -> None:
        """Stand behind each of them, which are in the order of their topics."""
        last = dict(zip(map(_TOPIC, records), map(_OFFSET, records), strict=True))
        self._current.update({topic: offset + 1 for topic, offset in last.items()})

    def pass_by(self, records: Iterable[Record]) -> None:
        """Stand behind each of them, which need no transaction of their own."""
        if not self._passed:
            self._passed_since = self._clock.monotonic()
        self._passed.update({record.topic: record.offset + 1 for record in records})

    def committed(self) -> None:
        """The current ones are committed."""
        self._current = dict(self.current)
        self._passed.clear()
        self._committed = dict(self._current)

    def rollback(self) -> None:
        """Stand where the last commit left them."""
        self._current = dict(self._committed)
        self._passed.clear()
