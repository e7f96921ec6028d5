"""The beats of one connection: when each was sent, for leases that count their term from one."""

from __future__ import annotations

from collections import OrderedDict


class Beats:
    """The beats of a connection. It is not thread-safe."""

    def __init__(self, every_seconds: float, term_seconds: float) -> None:
        self._every = every_seconds
        self._term = term_seconds
        self._number = 0
        self._sent: OrderedDict[int, float] = OrderedDict()
        self._due = float("-inf")

    def sent(self, now: float) -> int:
        """Note that a beat is sent now; returns its number."""
        self._number += 1
        self._sent[self._number] = now
        while next(iter(self._sent.values())) < now - self._term:
            self._sent.popitem(last=False)
        return self._number

    def sent_at(self, number: int) -> float | None:
        """When a beat was sent; None for one that is unknown, or too old to lease on."""
        return self._sent.get(number)

    def is_due(self, now: float) -> bool:
        """Whether an interval is over; the next one begins then."""
        if now < self._due:
            return False
        self._due = now + self._every
        return True
