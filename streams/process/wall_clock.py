"""The wall clock, for dates that are shown to people. It decides nothing durable."""

from __future__ import annotations

import time


def wall_ms() -> int:
    """Milliseconds since the epoch, as this machine has them."""
    return time.time_ns() // 1_000_000
