"""Delays refusals, so that a sender far over its tenant's rate slows down by itself.

A sender that waits for an answer sends nothing on that connection meanwhile. Without the delay, a
hundred connections would send and be refused as fast as they can, and slow everybody down.
"""

from __future__ import annotations

import asyncio
from collections import Counter

MOST_SECONDS = 1.0
"""Well below what any vendor waits for an answer (Slack: 3 s)."""
_MOST_HELD = 2_000
"""The most refusals held for all tenants together; further ones are answered at once."""


class Tarpit:
    """Holds refusals back, and counts those held now by tenant."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._all = 0

    async def hold(self, tenant_id: str, seconds: float) -> float:
        """Wait about as long as the tenant's rate needs to pass as many deliveries as are held.

        `seconds` is the time until the next delivery can pass; returns what remains of it.
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
