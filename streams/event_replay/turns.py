"""Decides whose turn it is: one replay that is stuck must not keep the others from going on.

One thread carries all replays of a process, and an attempt that fails may have waited many seconds
for Kafka. So a round ends with the first failure, and those that move then get as much time. They
get it, too, after a stuck one has waited in vain for events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

_RETRY_SECONDS = 5.0
_LONGEST_TURN_SECONDS = 60.0
"""A machine that stood still makes a short attempt look long."""


class Turns:
    """Knows which replays are stuck; `clock` tells seconds that only go forward."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._retry_at: dict[str, float] = {}
        self._others_until = -math.inf

    @property
    def stuck(self) -> int:
        """How many have failed, and have not moved since."""
        return len(self._retry_at)

    def due(self, replay_ids: Iterable[str]) -> list[str]:
        """Those to try now, in this order: those that move, then stuck ones, longest due first."""
        now, all_ = self._clock(), list(replay_ids)
        moving = [replay_id for replay_id in all_ if replay_id not in self._retry_at]
        if moving and now < self._others_until:
            return moving
        due = [each for each in all_ if self._retry_at.get(each, math.inf) <= now]
        return moving + sorted(due, key=self._retry_at.__getitem__)

    def moved(self, replay_id: str) -> None:
        """Note that a replay is not stuck, or that nobody here cares for it any more."""
        self._retry_at.pop(replay_id, None)

    def failed(self, replay_id: str, began: float) -> None:
        """Note that an attempt has failed which began at a time of the clock."""
        self._retry_at[replay_id] = self._clock() + _RETRY_SECONDS
        self.waited(replay_id, began)

    def waited(self, replay_id: str, began: float) -> None:
        """Note that an attempt which began at a time of the clock has not moved a replay."""
        if replay_id in self._retry_at:
            now = self._clock()
            others_until = max(self._others_until, began) + 2 * (now - began)
            self._others_until = min(others_until, now + _LONGEST_TURN_SECONDS)
