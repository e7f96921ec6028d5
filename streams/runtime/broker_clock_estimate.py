"""How far the broker's time is ahead of this machine's boot clock, as far as records can tell.

A record is appended between its sending and its acknowledgement, so each bounds the difference.
The bounds of successive records are intersected: the quickest round trip decides, and a slow one
says nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import copysign

DRIFT = 0.0005
"""By how much two clocks may run apart: 500 ppm is the most that the kernel corrects a clock by."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One record: when it was sent and acknowledged on the boot clock, and the broker's time.

    All in milliseconds. `low` and `high` bound the broker's time less the boot clock's; the
    broker's time is cut to whole milliseconds.
    """

    sent: float
    answered: float
    appended: int

    @property
    def low(self) -> float:
        return self.appended - self.answered

    @property
    def high(self) -> float:
        return self.appended + 1 - self.sent


@dataclass(frozen=True, slots=True)
class Estimate:
    """The broker's time less the boot clock's lay between `low` and `high` at boot time `at`.

    `strayed` is how far the broker's clock has lately moved in a way that drift does not explain,
    forward or, below zero, backward: two brokers that lead in turn make no step of it.
    """

    low: float
    high: float
    at: float
    strayed: float = 0.0

    @classmethod
    def first(cls, reading: Reading) -> Estimate:
        """What one reading tells."""
        return cls(reading.low, reading.high, reading.answered)

    def now(self, boot_ms: float) -> int:
        """The broker's time in milliseconds, or a little less."""
        return int(boot_ms + self.low - (boot_ms - self.at) * DRIFT)

    def after(self, reading: Reading) -> Estimate:
        """What is known with one reading more; it alone counts if both cannot be true."""
        drift = (reading.answered - self.at) * DRIFT
        low, high = self.low - drift, self.high + drift
        strayed = copysign(max(0.0, abs(self.strayed) - drift), self.strayed)
        if reading.low <= high and low <= reading.high:
            narrowed = max(low, reading.low), min(high, reading.high)
            return Estimate(*narrowed, reading.answered, strayed)
        strayed += reading.low - high if reading.low > high else reading.high - low
        return Estimate(reading.low, reading.high, reading.answered, strayed)
