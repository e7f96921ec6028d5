"""How many attempts a process makes at once, over all of its partitions.

Endpoints whose last attempt failed, or that had none yet, share a part of the slots, so that many
hanging receivers never hold up the others. They also begin at a bounded pace, since each opens a
connection: a thousand at once would keep the processor from the others for a second. Nor does one
tenant hold up others: a third of what it has stays free.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal

Slot = Literal["proven", "unproven"]
_SHARE = 3
"""A tenant takes slots while it has less than so many times those that stay free."""
_UNPROVEN_IN_A_MS, _MOST_AT_ONCE = 0.1, 4
"""How many unproven attempts begin in a millisecond, and how many of them together."""


class Slots:
    """Counts the attempts that the sender has; one thread uses it."""

    def __init__(self, total: int = 4_096, unproven: int = 1_024) -> None:
        self._total = total
        self._unproven = unproven
        self._taken: Counter[Slot] = Counter()
        self._of: Counter[tuple[Slot, str]] = Counter()
        self._may_begin, self._paced_at = float(_MOST_AT_ONCE), 0

    def room(self, slot: Slot, tenant_id: str, now: int) -> int:
        """How many more attempts of this kind a tenant may begin at a time in milliseconds."""
        free = self._total - self._taken.total()
        if slot == "unproven":
            free = min(free, self._unproven - self._taken[slot])
        room = max(0, math.ceil((_SHARE * free - self._of[slot, tenant_id]) / (_SHARE + 1)))
        return room if slot == "proven" else min(room, self._paced(now))

    def take(self, slot: Slot, tenant_id: str) -> None:
        self._taken[slot] += 1
        self._of[slot, tenant_id] += 1
        if slot == "unproven":
            self._may_begin -= 1

    def _paced(self, now: int) -> int:
        more = (now - self._paced_at) * _UNPROVEN_IN_A_MS
        self._may_begin = min(self._may_begin + more, _MOST_AT_ONCE)
        self._paced_at = now
        return max(0, int(self._may_begin))

    def give_back(self, slot: Slot, tenant_id: str) -> None:
        self._taken[slot] -= 1
        self._of[slot, tenant_id] -= 1
        if not self._of[slot, tenant_id]:
            del self._of[slot, tenant_id]
