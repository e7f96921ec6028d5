"""What the handlers of every peer write down. Each peer's own environment imports it.

A line is `KIND EVENT_ID MOMENT`, the moment in seconds since the epoch. One write appends it, so
the end of a process loses no line. `start` is a handler's first line and `end` its last one,
`effect` is the side effect itself, and `woke` comes once a wait is over.
"""

from __future__ import annotations

import asyncio
import os
import time

EFFECT_SECONDS = float(os.environ.get("PEERS_EFFECT_SECONDS", "0"))
"""How long the tool takes; half of it passes before the effect is there, and half after that."""

_file = os.open(os.environ["PEERS_JOURNAL"], os.O_WRONLY | os.O_APPEND)


def note(kind: str, event_id: str) -> None:
    """Append a line."""
    os.write(_file, f"{kind} {event_id} {time.time()}\n".encode())


async def effect(event_id: str) -> str:
    """The call of the tool, which knows no idempotency keys; its result."""
    await asyncio.sleep(EFFECT_SECONDS / 2)
    note("effect", event_id)
    await asyncio.sleep(EFFECT_SECONDS / 2)
    return "sent"


def effect_blocking(event_id: str) -> str:
    """The same for handlers that are plain functions."""
    time.sleep(EFFECT_SECONDS / 2)
    note("effect", event_id)
    time.sleep(EFFECT_SECONDS / 2)
    return "sent"
