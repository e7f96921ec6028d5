"""How soon attempts to endpoints begin that have not answered yet.

Each opens a connection: a thousand at once would keep the processor from all others for a second.
"""

from __future__ import annotations

_IN_A_MS = 0.1
_MOST_AT_ONCE = 4


class Pace:
    """Lets a bounded number begin in a time, and few together: a token bucket."""

    def __init__(self) -> None:
        self._left, self._at = float(_MOST_AT_ONCE), 0

    def room(self, now: int) -> int:
        """How many may begin at a time in milliseconds."""
        more = (now - self._at) * _IN_A_MS
        self._left, self._at = min(self._left + more, _MOST_AT_ONCE), now
        return int(self._left)

    def begun(self, count: int) -> None:
        self._left -= count
