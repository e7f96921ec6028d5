"""How many jobs a replay may ask for now."""

from __future__ import annotations


class Pace:
    """A token bucket: `rate` jobs a second, and those of one second at once. Times in seconds."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._tokens = 0.0
        self._at = now

    def allowed(self, now: float) -> int:
        """How many may be asked for at this time."""
        self._tokens = min(max(1.0, self._rate), self._tokens + (now - self._at) * self._rate)
        self._at = now
        return int(self._tokens)

    def spend(self, jobs: int) -> None:
        """Count jobs that were asked for."""
        self._tokens -= jobs
