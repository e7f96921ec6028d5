"""The clocks of a seed: the broker's is the true one; each process has a boot and a wall clock.

A process learns the broker's time as it does in production, from records that the broker stamps
(`streams.runtime.broker_clock`), each read within a few milliseconds. Its wall clock may be set by
any amount; everything that asks `time.time` gets it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from streams.runtime.broker_clock_estimate import Estimate, Reading
from streams.runtime.clock import VirtualClock

_READ_EVERY_MS = 10_000
_ROUND_TRIP_MS = 6


class ProcessClock:
    """`Clock` of one process; `boot` is the machine's uptime at its start, in milliseconds."""

    def __init__(self, true: VirtualClock, boot: float) -> None:
        self._true = true
        self._behind = true.ms - boot
        self._latest = 0
        self._estimate = Estimate.first(self._reading())

    @property
    def ms(self) -> float:
        """The true time, by which the driver plans punctuations."""
        return self._true.ms

    def now(self) -> int:
        if self._boot_ms - self._estimate.at >= _READ_EVERY_MS:
            self._estimate = self._estimate.after(self._reading())
        self._latest = max(self._latest, self._estimate.now(self._boot_ms))
        return self._latest

    def monotonic(self) -> float:
        return self._boot_ms / 1000

    @property
    def _boot_ms(self) -> float:
        return self._true.ms - self._behind

    def _reading(self) -> Reading:
        """Sent a moment ago, stamped in between, answered now."""
        appended = int(self._true.ms - _ROUND_TRIP_MS / 2)
        return Reading(self._boot_ms - _ROUND_TRIP_MS, self._boot_ms, appended)


@dataclass
class WallClock:
    """What `time.time` says, wherever the product asks it; `wrong_ms` is set by operations."""

    true: VirtualClock
    wrong_ms: int = 0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While this lasts, the process has no other wall clock."""
        real = time.time, time.time_ns
        time.time = self._seconds
        time.time_ns = self._nanoseconds
        try:
            yield
        finally:
            time.time, time.time_ns = real

    def _seconds(self) -> float:
        return (self.true.ms + self.wrong_ms) / 1000

    def _nanoseconds(self) -> int:
        return int(self.true.ms + self.wrong_ms) * 1_000_000
