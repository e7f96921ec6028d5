"""The rows that the sender has, by endpoint.

This does not follow from the stores: an attempt goes on while the stage undoes its work.
"""

from __future__ import annotations

from collections import Counter

from streams.delivery.slots import Slot, Slots

EndpointId = tuple[str, str]
"""Tenant and endpoint."""


class InFlight:
    """The rows of one partition that the sender has; it gives their slots back."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self._rows: dict[str, tuple[EndpointId, Slot, int]] = {}
        self._counts: Counter[EndpointId] = Counter()

    def __contains__(self, delivery_id: object) -> bool:
        return delivery_id in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def count(self, place: EndpointId) -> int:
        return self._counts[place]

    def add(self, delivery_id: str, place: EndpointId, slot: Slot, size: int) -> None:
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
