"""How much one run may say: at a rate, with a burst, and in total."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of anything that is counted: so many a second, at once, and in a whole run."""

    a_second: float
    at_once: float
    in_all: float


class Budget:
    """A bucket of `at_once` that fills `a_second`, and never gives more than `in_all`.

    It looks at the clock when something is taken, and not before.
    """

    def __init__(self, bounds: Bounds, clock: Callable[[], float]) -> None:
        self._bounds = bounds
        self._clock = clock
        self._left = bounds.in_all
        self._filled = bounds.at_once
        self._at: float | None = None

    def take(self, size: float) -> bool:
        """Whether so much may be said now; what may not be said is not counted."""
        now = self._clock()
        since = now if self._at is None else self._at
        gained = max(0.0, now - since) * self._bounds.a_second
        self._filled = min(self._bounds.at_once, self._filled + gained)
        self._at = now
        if size > self._filled or size > self._left:
            return False
        self._filled -= size
        self._left -= size
        return True
