"""The rows that the sender has, by endpoint; they come from no store, and outlive a rollback."""

from __future__ import annotations

from collections import Counter

from streams.delivery.slots import Slot, Slots

Place = tuple[str, str]
"""Tenant and endpoint."""


class Handed:
    """The rows of one partition that the sender has; it gives their slots back."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self._rows: dict[str, tuple[Place, Slot, int]] = {}
        self._counts: Counter[Place] = Counter()

    def __contains__(self, delivery_id: object) -> bool:
        return delivery_id in self._rows

    def count(self, place: Place) -> int:
        return self._counts[place]

    def add(self, delivery_id: str, place: Place, slot: Slot, size: int) -> None:
        """Note that the sender has a row, whose message has `size` bytes in memory."""
        self._rows[delivery_id] = place, slot, size
        self._counts[place] += 1
        self.slots.take(slot, place[0], size)

    def remove(self, delivery_id: str) -> None:
        """Note that the sender does not have a row any more; unknown ones are ignored."""
        known = self._rows.pop(delivery_id, None)
        if known is None:
            return
        place, slot, size = known
        self._counts[place] -= 1
        if not self._counts[place]:
            del self._counts[place]
        self.slots.give_back(slot, place[0], size)

    def clear(self) -> None:
        for delivery_id in list(self._rows):
            self.remove(delivery_id)
