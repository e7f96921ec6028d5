"""Time as tasks see it, behind an interface so that a test can control it."""

from __future__ import annotations

from typing import Protocol

from streams.process.boot_clock import boot_seconds
from streams.process.wall_clock import wall_ms


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch; never runs backwards."""

    def monotonic(self) -> float:
        """Seconds on a clock that never steps, and counts the time that a machine is suspended."""


class SystemClock:
    """The machine's clocks, for tests."""

    def now(self) -> int:
        return wall_ms()

    def monotonic(self) -> float:
        return boot_seconds()


class VirtualClock:
    """`Clock` that stands still until it is moved."""

    def __init__(self, start_ms: int) -> None:
        self.ms = float(start_ms)

    def now(self) -> int:
        return int(self.ms)

    def monotonic(self) -> float:
        return self.ms / 1000
