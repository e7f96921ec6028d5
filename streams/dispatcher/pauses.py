"""Pauses of pools whose work topic the broker does not have: their jobs wait."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from streams.dispatcher import metrics
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step

log = structlog.get_logger(__name__)

_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Pause:
    """A pool gets no lease until monotonic `until`, `seconds` after the pause began."""

    until: float
    seconds: float


class Pauses:
    """The pauses of one partition; each is twice as long as the one before."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._pauses: dict[str, Pause] = {}

    def closed(self, now: float) -> set[str]:
        """Pools to which no lease is sent at monotonic `now`."""
        return {pool for pool, pause in self._pauses.items() if pause.until > now}

    def begin(self, step: Step, pool: str, detail: str) -> None:
        """Send no lease to a pool for a while."""
        before = self._pauses.get(pool)
        seconds = min(before.seconds * 2, _LONGEST_SECONDS) if before else _FIRST_SECONDS
        self._pauses[pool] = Pause(step.monotonic + seconds, seconds)
        self._shared.without_topic.add(pool)
        self._observe(pool, 1)
        log.error(
            "no lease can be sent: the pool's jobs wait; create the topic as "
            "`tidegate topology plan` says",
            pool=pool,
            detail=detail,
            again_in_seconds=seconds,
        )

    def over(self, pools: set[str]) -> None:
        """Leases to these pools were taken: end their pauses."""
        for pool in pools & self._pauses.keys():
            del self._pauses[pool]
            self._shared.without_topic.discard(pool)
            self._observe(pool, 0)
            log.info("leases go to the pool again", pool=pool)

    def closed_partition(self) -> None:
        """Drop the gauges, since another process owns the partition now."""
        for pool in self._pauses:
            metrics.PAUSED.remove(str(self._shared.partition), pool)

    def _observe(self, pool: str, value: int) -> None:
        metrics.PAUSED.labels(str(self._shared.partition), pool).set(value)
