"""Whose turn it is: one replay that is stuck must not keep the others from going on.

One thread carries all replays of a process, and an attempt that fails may have waited many seconds
for Kafka. So a round ends with the first failure, and the others then get as much time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

_RETRY_SECONDS = 5.0


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
        now, found = self._clock(), list[tuple[float, str]]()
        for replay_id in replay_ids:
            retry_at = self._retry_at.get(replay_id, -math.inf)
            if retry_at == -math.inf or now >= max(retry_at, self._others_until):
                found.append((retry_at, replay_id))
        found.sort(key=lambda each: each[0])
        return [replay_id for _, replay_id in found]

    def moved(self, replay_id: str) -> None:
        """Note that a replay is not stuck, or that nobody here cares for it any more."""
        self._retry_at.pop(replay_id, None)

    def failed(self, replay_id: str, began: float) -> None:
        """Note that an attempt has failed which began at a time of the clock."""
        now = self._clock()
        self._retry_at[replay_id] = now + _RETRY_SECONDS
        self._others_until = now + (now - began)
