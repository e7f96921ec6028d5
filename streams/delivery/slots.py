"""How many attempts a process makes at once, over all of its partitions.

Endpoints whose last attempt failed, or that had none yet, share a part of the slots, so that many
hanging receivers never hold up the others. Nor does one tenant: a third of what it has stays free.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal

Slot = Literal["proven", "unproven"]
_SHARE = 3
"""A tenant takes slots while it has less than so many times those that stay free."""


class Slots:
    """Counts the attempts that the sender has; one thread uses it."""

    def __init__(self, total: int = 4_096, unproven: int = 1_024) -> None:
        self._total = total
        self._unproven = unproven
        self._taken: Counter[Slot] = Counter()
        self._of: Counter[tuple[Slot, str]] = Counter()

    def room(self, slot: Slot, tenant_id: str) -> int:
        """How many more attempts of this kind a tenant may begin."""
        free = self._total - self._taken.total()
        if slot == "unproven":
            free = min(free, self._unproven - self._taken[slot])
        return max(0, math.ceil((_SHARE * free - self._of[slot, tenant_id]) / (_SHARE + 1)))

    def take(self, slot: Slot, tenant_id: str) -> None:
        self._taken[slot] += 1
        self._of[slot, tenant_id] += 1

    def give_back(self, slot: Slot, tenant_id: str) -> None:
        self._taken[slot] -= 1
        self._of[slot, tenant_id] -= 1
        if not self._of[slot, tenant_id]:
            del self._of[slot, tenant_id]
