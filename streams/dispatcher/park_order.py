"""In which order the waits of a run that parks end."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from streams.errors import WaitRefused
from streams.serde.records import StepResult


class EndsInOrder:
    """What the waits of one park leave that are over, each with the place of its wait in the park.

    They come by their numbers; a refusal comes at `refused`, and what has no number at `last`.
    """

    def __init__(self, last: int, refused: int) -> None:
        self._last = last
        self._refused = refused
        self._ends: list[tuple[int, int, StepResult]] = []  # a heap, by number

    def add(self, place: int, left: StepResult) -> None:
        """Add what a wait leaves."""
        is_refused = left.raises == WaitRefused.__name__
        number = self._refused if is_refused else left.number or self._last
        heappush(self._ends, (number, place, left))

    def __iter__(self) -> Iterator[tuple[int, StepResult]]:
        """Take the ends, in their order; others may be added meanwhile."""
        while self._ends:
            _, place, left = heappop(self._ends)
            yield place, left
