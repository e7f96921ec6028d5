"""Refusals that are held back, so that a sender far over its tenant's rate slows down by itself.

Who waits for an answer sends nothing on that connection meanwhile. Answered at once, a hundred
connections would refuse themselves as fast as they can, at the cost of everybody's latency.
"""

from __future__ import annotations

import asyncio
from collections import Counter

MOST_SECONDS = 1.0
"""Well below what any vendor waits for an answer (Slack: 3 s)."""
_MOST_HELD = 2_000
"""Of all tenants together; further ones are answered at once."""


class Tarpit:
    """How many refusals are held now, by tenant."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._all = 0

    async def hold(self, tenant_id: str, seconds: float) -> float:
        """Return when about as many deliveries could have passed as are held of the tenant.

        `seconds` is until the next one can; what is left of it afterwards is returned.
        """
        if self._all >= _MOST_HELD:
            return seconds
        held = min(MOST_SECONDS, seconds * (self._held[tenant_id] + 1))
        self._held[tenant_id] += 1
        self._all += 1
        try:
            await asyncio.sleep(held)
        finally:
            self._all -= 1
            self._held[tenant_id] -= 1
            if not self._held[tenant_id]:
                del self._held[tenant_id]
        return max(0.0, seconds - held)
