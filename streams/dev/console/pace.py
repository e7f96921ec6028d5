"""Keeps a flood off the screen: the first lines of a second are shown, the others are counted."""

from __future__ import annotations

from collections import Counter

LINES_A_SECOND = 20
_NAMES = {"events.received": "events", "jobs": "changes of jobs", "ledger": "changes of effects"}


class Pace:
    """Counts what it does not let through; records it holds back need not be decoded."""

    def __init__(self, lines_a_second: int = LINES_A_SECOND) -> None:
        self._room = lines_a_second
        self._left = lines_a_second
        self._second = 0
        self._held_back: Counter[str] = Counter()

    def admits(self, topic: str) -> bool:
        """Whether a record of this topic may become a line; if not, it is counted."""
        if self._left <= 0:
            self._held_back[topic] += 1
            return False
        return True

    def shown(self) -> None:
        """Note that a line was shown."""
        self._left -= 1

    def summary(self, now: float) -> str | None:
        """When a second is over: what was held back in it, if anything was."""
        if int(now) == self._second:
            return None
        self._second, self._left = int(now), self._room
        counted, self._held_back = self._held_back, Counter()
        if not counted:
            return None
        return "and " + ", ".join(f"{n:,} {_NAMES.get(t, t)}" for t, n in counted.most_common())
