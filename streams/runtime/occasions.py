"""Which occurrences of a fault have a log line, where a worker may cause them at will."""

from __future__ import annotations

from collections import Counter


class Occasions:
    """Counts faults by the class of their error."""

    def __init__(self) -> None:
        self._counts = Counter[str]()

    def is_told(self, error: Exception) -> bool:
        """Count an error; return whether it is the 1st, 2nd, 4th, 8th of its class, and so on."""
        kind = type(error).__name__
        self._counts[kind] += 1
        return self._counts[kind].bit_count() == 1
