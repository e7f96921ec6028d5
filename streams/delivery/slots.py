"""How many attempts a process makes at once, over all of its partitions.

Endpoints whose last attempt failed, or that had none yet, share a part of the slots, so that many
hanging receivers never hold up the others. Nor does one tenant: a third of what it has stays free.
The same holds for the bytes of the messages that stand in attempts, such as results of jobs.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal

Slot = Literal["proven", "unproven"]
_SHARE = 3
"""A tenant takes slots while it has less than so many times those that stay free."""
_MOST_BYTES = 64 * 1024 * 1024
"""Beyond them no attempt begins; the last one that does may exceed them."""


class Slots:
    """Counts the attempts that the sender has; one thread uses it."""

    def __init__(
        self, total: int = 4_096, unproven: int = 1_024, most_bytes: int = _MOST_BYTES
    ) -> None:
        self._total = total
        self._unproven = unproven
        self._taken: Counter[Slot] = Counter()
        self._of: Counter[tuple[Slot, str]] = Counter()
        self._free_bytes = most_bytes
        self._bytes_of: Counter[str] = Counter()

    def room(self, slot: Slot, tenant_id: str) -> int:
        """How many more attempts of this kind a tenant may begin."""
        if self._bytes_of[tenant_id] > _SHARE * self._free_bytes:
            return 0
        free = self._total - self._taken.total()
        if slot == "unproven":
            free = min(free, self._unproven - self._taken[slot])
        return max(0, math.ceil((_SHARE * free - self._of[slot, tenant_id]) / (_SHARE + 1)))

    def take(self, slot: Slot, tenant_id: str, size: int) -> None:
        self._count(slot, tenant_id, 1, size)

    def give_back(self, slot: Slot, tenant_id: str, size: int) -> None:
        self._count(slot, tenant_id, -1, -size)

    def _count(self, slot: Slot, tenant_id: str, attempts: int, size: int) -> None:
        self._taken[slot] += attempts
        self._of[slot, tenant_id] += attempts
        if not self._of[slot, tenant_id]:
            del self._of[slot, tenant_id]
        self._free_bytes -= size
        self._bytes_of[tenant_id] += size
        if not self._bytes_of[tenant_id]:
            del self._bytes_of[tenant_id]
