"""Finds the longest waiting job among many lanes."""

from __future__ import annotations

from collections.abc import Mapping

from sortedcontainers import SortedList

from streams.fairness.lanes import Lane

_LOOKED_AT = 2_000


class Oldest:
    """Sorts lanes by their oldest jobs, and updates that order only when `first` is called.

    One call updates a bounded number of lanes. After very many lanes came at once, as in the
    takeover of a partition, the order is complete only after several calls.
    """

    def __init__(self, lanes: Mapping[int, Lane]) -> None:
        self._lanes = lanes  # by number
        self._order = SortedList()  # of `Lane.oldest`; its job may be gone
        self._older: dict[int, Lane] = {}  # lanes to be sorted in again

    def older(self, lane: Lane) -> None:
        """Note that a lane is new, or got a job that is older than its others."""
        self._older[lane.number] = lane

    def forget(self, lane: Lane) -> None:
        """Remove a lane that has no jobs any more."""
        self._older.pop(lane.number, None)
        if lane.oldest is not None:
            self._order.remove(lane.oldest)

    def first(self) -> Lane | None:
        """The lane whose oldest job has waited longest."""
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
