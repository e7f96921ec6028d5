"""The longest waiting job among many lanes."""

from __future__ import annotations

from collections.abc import Mapping

from sortedcontainers import SortedList

from streams.fairness.lanes import Lane

_LOOKED_AT = 2_000


class Oldest:
    """Lanes in the order of their oldest jobs, brought up to date only when it is asked for.

    After very many came at once, as when a partition is taken over, it takes some calls until all
    of them are looked at.
    """

    def __init__(self, lanes: Mapping[int, Lane]) -> None:
        self._lanes = lanes  # by number
        self._order = SortedList()  # `Lane.oldest`, which may be a job that is gone
        self._older: dict[int, Lane] = {}  # lanes that got an older job since

    def older(self, lane: Lane) -> None:
        """A lane is new, or got a job that is older than its others."""
        self._older[lane.number] = lane

    def forget(self, lane: Lane) -> None:
        """A lane has no jobs any more."""
        self._older.pop(lane.number, None)
        if lane.oldest is not None:
            self._order.remove(lane.oldest)

    def first(self) -> Lane | None:
        """The lane whose oldest job waits longest."""
        self._look_at_older()
        while self._order:
            lane = self._lanes[self._order[0][2]]
            if lane.jobs[0] is lane.oldest:
                return lane
            self._order.pop(0)
            lane.oldest = lane.jobs[0]
            self._order.add(lane.oldest)
        return None

    def _look_at_older(self) -> None:
        for _ in range(min(_LOOKED_AT, len(self._older))):
            _, lane = self._older.popitem()
            if lane.oldest is not None:
                self._order.remove(lane.oldest)
            lane.oldest = lane.jobs[0]
            self._order.add(lane.oldest)
