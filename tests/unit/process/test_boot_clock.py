"""What expires is timed by a clock that nobody sets, hastens or stops."""

from __future__ import annotations

import time

import pytest

from streams.process import boot_clock
from streams.process.boot_clock import boot_seconds


class Machine:
    """Its clocks, as Linux has them; a reading may be interrupted for a while after it."""

    def __init__(self) -> None:
        self.raw = 1_000.0
        self.corrected = 1_010.0
        self.suspended = 3_600.0
        self.interruptions = [0.0] * 3

    def passes(self, seconds: float, pace: float = 1.0) -> None:
        self.raw += seconds
        self.corrected += seconds * pace

    def clock_gettime(self, clock: int) -> float:
        found = {
            time.CLOCK_MONOTONIC: self.corrected,
            time.CLOCK_BOOTTIME: self.corrected + self.suspended,
            time.CLOCK_MONOTONIC_RAW: self.raw,
        }[clock]
        self.passes(self.interruptions[0])
        self.interruptions = [*self.interruptions[1:], 0.0]
        return found


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(time, "clock_gettime", made.clock_gettime)
    return made


@pytest.mark.parametrize("pace", [1.083, 1 - 0.083])
def test_a_time_service_that_corrects_the_clock_does_not_change_its_pace(
    machine: Machine, pace: float
) -> None:
    """A lease of 30 s would end 2.5 s late; after an hour without broker, a timer 5 min early."""
    before = boot_seconds()
    machine.passes(3_600, pace)
    assert boot_seconds() - before == pytest.approx(3_600)


def test_the_time_for_which_the_machine_is_suspended_counts(machine: Machine) -> None:
    before = boot_seconds()
    machine.suspended += 7_200
    machine.passes(1)
    assert boot_seconds() - before == pytest.approx(7_201)


@pytest.mark.parametrize("after", range(3))
def test_an_interruption_between_two_readings_puts_it_outside_of_no_call(
    machine: Machine, after: int
) -> None:
    """So it never runs backwards, whoever reads it."""
    machine.interruptions[after] = 5.0
    begun = machine.raw + machine.suspended
    found = boot_seconds()
    assert begun <= found <= machine.raw + machine.suspended == begun + 5


def test_a_system_without_such_clocks_has_one_that_counts_suspension(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot_clock, "_BOOT_CLOCK", None)
    assert boot_seconds() == machine.corrected
