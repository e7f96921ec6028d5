"""Tracks up to which time the rows are complete; only answers of a broker advance it."""

from __future__ import annotations

from collections.abc import Mapping

from streams.api.read_model.positions import MAX_AGE_MS, Untrusted
from streams.kafka.offsets import Ends, Place


class Freshness:
    """The time `at` (milliseconds): every record that was on the topics then is folded."""

    def __init__(self, at: int, ends: Ends) -> None:
        self.at = at
        self.newest = ends
        self._goal = ends

    def heard(self, ends: Ends) -> None:
        """Note the broker's newest answer."""
        self.newest = ends

    def reached(self, positions: Mapping[Place, int]) -> None:
        """Update `at` once the rows up to these positions are stored."""
        # Keep an older goal, too: under steady load the positions never reach the newest ends.
        for goal in (self._goal, self.newest):
            if all(positions[place] >= end for place, end in goal.offsets.items()):
                self.at = max(self.at, int(goal.asked_at))
                self._goal = self.newest

    def require(self, now: int) -> None:
        """Stop a session that did not reach the broker for too long.

        Raises:
            Untrusted: deletions may have been compacted away since `at`.
        """
        if now - self.at > MAX_AGE_MS:
            raise Untrusted(
                "it was cut off for so long that deletions may have been compacted away"
            )
