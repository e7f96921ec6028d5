"""The positions of a task: the next offset to process of each of its inputs (logical topics).

A step that changed and sent nothing needs no transaction of its own. Its positions wait for the
next transaction, for about a second. If the process dies before that, its successor reads those
records again and decides the same, because the stores are as they were.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter

from streams.runtime.clock import Clock
from streams.runtime.processor import Record

_TOPIC, _OFFSET = itemgetter(0), itemgetter(2)  # of a record; access by name costs double
_WAIT_SECONDS = 0.8
"""How long positions wait: with the 0.2 s that a read may take it is one second."""


class Positions:
    """The `current` positions of one task; `rollback` returns to those after its last step.

    `moved` says that they are not committed.
    """

    def __init__(self, committed: Mapping[str, int], clock: Clock) -> None:
        self.current = dict(committed)
        self._kept = dict(committed)
        self._since = self._kept_since = math.inf  # when they began to differ from committed ones
        self._clock = clock

    @property
    def moved(self) -> bool:
        return self._since < math.inf

    @property
    def due(self) -> bool:
        """Whether they must be committed now, even if nothing else changed."""
        return self.moved and self._clock.monotonic() - self._since >= _WAIT_SECONDS

    def handled(self, records: Sequence[Record]) -> None:
        """Move past these records, which are in the order of their topics."""
        last = dict(zip(map(_TOPIC, records), map(_OFFSET, records), strict=True))
        self.move({topic: offset + 1 for topic, offset in last.items()})

    def move(self, to: Mapping[str, int]) -> None:
        """Continue at these positions."""
        self.current.update(to)
        if not self.moved:
            self._since = self._clock.monotonic()

    def keep(self) -> bool:
        """Note that a step ended and that its positions wait; returns whether it moved any."""
        if self.current == self._kept:
            return False
        self._kept, self._kept_since = dict(self.current), self._since
        return True

    def committed(self) -> None:
        """Note that the current positions are committed."""
        self._kept = dict(self.current)
        self._since = self._kept_since = math.inf

    def rollback(self) -> None:
        """Return to the positions after the last step that was committed or waits."""
        self.current, self._since = dict(self._kept), self._kept_since
