"""Waits for a named condition, never for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_POLL_SECONDS = 0.005


async def until(condition: Callable[[], object], seconds: float) -> bool:
    """Whether the condition came true within this many seconds; returns as soon as it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True
