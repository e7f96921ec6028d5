"""Remembers what may be used once, as long as it could be used at all."""

from __future__ import annotations

_MOST = 100_000


class UsedOnce:
    """Values that were used, until their ends (ms); the oldest of too many are forgotten."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}

    def take(self, value: str, end: int, now: int) -> bool:
        """Return whether a value is used for the first time."""
        if value in self._ends:
            return False
        while self._ends and (len(self._ends) >= _MOST or next(iter(self._ends.values())) <= now):
            del self._ends[next(iter(self._ends))]
        self._ends[value] = end
        return True
