"""How far the broker's time is ahead of this machine's boot clock, as far as records can tell.

A record is appended between its sending and its acknowledgement, so each one bounds the difference.
The bounds of successive records are intersected: the quickest round trip decides, and a slow one
adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import copysign

DRIFT = 0.0005
"""The most that the two clocks may run apart for long.

The crystal that the boot clock counts is right to some 100 ppm, and nothing corrects that clock.
The broker's follows the real time: a correction that is faster than this is a move (`strayed`).
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """One record: when it was sent and acknowledged on the boot clock, and the broker's time.

    All are in milliseconds. `low` and `high` bound the broker's time minus the boot clock's; the
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
    """The broker's time minus the boot clock's was between `low` and `high` at boot time `at`.

    `strayed` is how far the broker's clock has lately moved in a way that drift does not explain:
    forward or, if below zero, backward. Two brokers that lead in turn do not add up to a step.
    """

    low: float
    high: float
    at: float
    strayed: float = 0.0

    @classmethod
    def first(cls, reading: Reading) -> Estimate:
        """The estimate from one reading alone."""
        return cls(reading.low, reading.high, reading.answered)

    def now(self, boot_ms: float) -> int:
        """The broker's time in milliseconds, or a little less."""
        return int(boot_ms + self.low - (boot_ms - self.at) * DRIFT)

    def after(self, reading: Reading) -> Estimate:
        """The estimate with one more reading; if they contradict, the new reading alone counts."""
        drift = (reading.answered - self.at) * DRIFT
        low, high = self.low - drift, self.high + drift
        strayed = copysign(max(0.0, abs(self.strayed) - drift), self.strayed)
        if reading.low <= high and low <= reading.high:
            narrowed = max(low, reading.low), min(high, reading.high)
            return Estimate(*narrowed, reading.answered, strayed)
        strayed += reading.low - high if reading.low > high else reading.high - low
        return Estimate(reading.low, reading.high, reading.answered, strayed)
