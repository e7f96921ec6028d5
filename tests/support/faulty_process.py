"""A stage's process that a test kills or freezes with records in flight, and shows that it did."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

from support.conditions import PATIENCE_SECONDS, eventually
from support.fault_points import FAULT_POINTS, FaultPoints, ProcessPosition
from support.stage_process import StageProcess


class FaultyProcess(StageProcess):
    """Runs a program that calls `fault_points.install`."""

    def __init__(self, program: str, log: Path, environ: Mapping[str, str]) -> None:
        shared = log.with_suffix(".points")
        self.points = FaultPoints.create(shared)
        super().__init__(program, log, {**environ, FAULT_POINTS: str(shared)})

    def fault(
        self, step: str, number: signal.Signals = signal.SIGKILL, timeout: float = PATIENCE_SECONDS
    ) -> ProcessPosition:
        """SIGKILL or SIGSTOP it at that step, with records in flight; where it landed.

        Raises:
            AssertionError: it did not get there in time.
        """
        self.points.arm(step, number)
        return self.await_fault(step, number, timeout)

    def await_fault(
        self, step: str, number: signal.Signals, timeout: float = PATIENCE_SECONDS
    ) -> ProcessPosition:
        """Where a fault landed that was armed before.

        Raises:
            AssertionError: it did not get there in time.
        """
        landed = eventually(
            lambda: self.points.landed,
            timeout,
            what=f"{number.name} landed {step}, records in hand",
        )
        if number == signal.SIGKILL:
            assert self.exit_code() == -signal.SIGKILL
        else:
            eventually(lambda: frozen(self.pid), what="the process is frozen")
        assert landed.step == step
        assert landed.in_flight > 0
        return landed

    def freeze(self, timeout: float = PATIENCE_SECONDS) -> ProcessPosition:
        """SIGSTOP it wherever it is, as soon as records are in flight; where that was."""
        return eventually(self._caught, timeout, what="frozen with records in flight")

    def kill_in_flight(self) -> ProcessPosition:
        """SIGKILL it wherever it is, as soon as records are in flight; where that was."""
        place = self.freeze()
        self.kill()
        return place

    def stop(self) -> int:
        """SIGTERM; the exit code, 0 also if it came too early to be heard."""
        heard = bool(self._started())
        code = super().stop()
        return 0 if code == -signal.SIGTERM and not heard else code

    def _caught(self) -> ProcessPosition | None:
        self.signal(signal.SIGSTOP)
        eventually(lambda: frozen(self.pid), what="the process is frozen")
        place = self.points.now
        if place.in_flight:
            return place
        self.signal(signal.SIGCONT)
        return None


def frozen(pid: int) -> bool:
    """Whether every thread of a process has heeded SIGSTOP."""
    try:
        states = [
            task.read_text().rpartition(")")[2].split()[0]
            for task in Path(f"/proc/{pid}/task").glob("*/stat")
        ]
    except (FileNotFoundError, ProcessLookupError):  # a thread has ended meanwhile: it still runs
        return False
    return bool(states) and set(states) <= {"T", "t"}
