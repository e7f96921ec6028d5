"""Two directions of one proxied TCP connection."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def relayed(
    there: Coroutine[Any, Any, None],
    back: Coroutine[Any, Any, None],
    *writers: asyncio.StreamWriter,
) -> None:
    """Run both directions until one ends or the proxy closes; then end the other, and close."""
    both = [asyncio.ensure_future(there), asyncio.ensure_future(back)]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        pass  # the proxy closes; asyncio would report this task as failed
    finally:
        for direction in both:
            direction.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        for writer in writers:
            writer.close()
