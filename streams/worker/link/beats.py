"""The beats of one connection: when each was sent, for leases that count their term from one.

Their numbers grow over all connections of the process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator


class Beats:
    """The beats of a connection. It is not thread-safe."""

    def __init__(self, every_seconds: float, term_seconds: float, numbers: Iterator[int]) -> None:
        self._every = every_seconds
        self._term = term_seconds
        self._numbers = numbers
        self._sent: OrderedDict[int, float] = OrderedDict()
        self._due = float("-inf")

    def sent(self, now: float) -> int:
        """Note that a beat is sent now; returns its number."""
        number = next(self._numbers)
        self._sent[number] = now
        while next(iter(self._sent.values())) < now - self._term:
            self._sent.popitem(last=False)
        return number

    def sent_at(self, number: int) -> float | None:
        """When a beat was sent; None for one that is unknown, or too old to lease on."""
        return self._sent.get(number)

    def is_due(self, now: float) -> bool:
        """Whether an interval is over; the next one begins then."""
        if now < self._due:
            return False
        self._due = now + self._every
        return True
