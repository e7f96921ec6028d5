"""How many attempts a process makes at once, over all of its partitions.

Endpoints whose last attempt failed, or that had none yet, share a part of the slots, so that many
hanging receivers never hold up the others.
"""

from __future__ import annotations

from typing import Literal

Slot = Literal["proven", "unproven"]


class Slots:
    """Counts the attempts that the sender has; one thread uses it."""

    def __init__(self, total: int = 4_096, unproven: int = 1_024) -> None:
        self._total = total
        self._unproven = unproven
        self._taken: dict[Slot, int] = {"proven": 0, "unproven": 0}

    def room(self, slot: Slot) -> int:
        """How many more attempts of this kind may begin."""
        free = self._total - self._taken["proven"] - self._taken["unproven"]
        return free if slot == "proven" else min(free, self._unproven - self._taken[slot])

    def take(self, slot: Slot, count: int = 1) -> None:
        self._taken[slot] += count

    def give_back(self, slot: Slot) -> None:
        self._taken[slot] -= 1
