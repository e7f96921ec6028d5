"""How far a stage is behind its inputs, and whether one of them is held up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streams.kafka.offsets import Ends, Place
from streams.process.boot_clock import boot_seconds
from streams.runtime import metrics
from streams.runtime.end_offsets import EndOffsets
from streams.runtime.processor import Record
from streams.runtime.stalled_inputs import BlockedInputs

_EVERY_SECONDS = 2.0
_SILENCE_SECONDS = 10.0
"""An answer of the broker that is older than this no longer shows how far the stage is behind."""


@dataclass(slots=True)
class _Progress:
    """One input, seen first at `since`: all that was there at `reached_at` is processed.

    `goal` is an earlier end of it. The goal stays until it is reached: under steady load the
    position never reaches the newest end.
    """

    since: float
    goal_asked_at: float
    goal: int
    reached_at: float | None = None

    def note(self, asked_at: float, end: int, position: int) -> None:
        if position >= self.goal:
            self.reached_at = self.goal_asked_at
            self.goal_asked_at, self.goal = asked_at, end
        if position >= end:
            self.reached_at = asked_at


@dataclass(frozen=True, slots=True)
class _Measured:
    """`seconds` behind, by what the broker was asked at `asked_at`."""

    seconds: float
    asked_at: float


class Lag:
    """Measures from time to time, from end offsets that are read without waiting.

    Inputs whose stores are being restored count as well: nobody else processes them. Times are on
    the boot clock. `tidegate_stage_lag_seconds` is computed when it is scraped, so it
    also grows while the stage's thread hangs, or while no broker answers.
    """

    def __init__(
        self,
        stage: str,
        ends: EndOffsets,
        blocked: BlockedInputs,
        boot: Callable[[], float] = boot_seconds,
    ) -> None:
        self._stage = stage
        self._ends = ends
        self._blocked = blocked
        self._boot = boot
        self._due = float("-inf")
        self._newest: int | None = None
        self._inputs: list[Place] = []
        self._progress: dict[Place, _Progress] = {}
        self._measured = _Measured(0.0, boot())
        metrics.LAG_SECONDS.labels(stage).set_function(self._seconds)

    def measure(self, records: Sequence[Record]) -> None:
        """Measure if it is due; called each round with the records that it processed."""
        if records:
            self._newest = records[-1].timestamp
        if self._boot() < self._due:
            return
        self._due = self._boot() + _EVERY_SECONDS
        self._follow_assignment()
        answered = self._ends.newest()
        self._ends.ask()
        self._blocked.look(self._inputs)
        if not self._inputs:
            self._show(0, _Measured(0.0, self._boot()))
        elif answered is not None:
            self._compare(answered)

    def _follow_assignment(self) -> None:
        """Forget what was known of inputs that were taken away."""
        if self._ends.inputs is not self._inputs:
            self._inputs, known = self._ends.inputs, self._progress
            self._progress = {place: known[place] for place in self._inputs if place in known}

    def _compare(self, answered: Ends) -> None:
        at, left, seconds = answered.asked_at, 0, 0.0
        for place, end in answered.offsets.items():
            position = self._ends.position(*place)
            progress = self._progress.setdefault(place, _Progress(at, at, end))
            progress.note(at, end, position)
            if position < end:
                left += end - position
                seconds = max(seconds, self._waited(progress))
        # Of the other inputs nothing is known since the last complete answer.
        since = at if answered.complete else self._measured.asked_at
        self._show(left, _Measured(seconds, since))

    def _waited(self, progress: _Progress) -> float:
        """For how long the oldest unread record of an input has waited, at most.

        Before the stage reached any end of that input, the age of what it processes says so.
        """
        if progress.reached_at is not None:
            return self._boot() - progress.reached_at
        age = 0.0 if self._newest is None else time.time() - self._newest / 1000
        return max(age, self._boot() - progress.since)

    def _show(self, left: int, measured: _Measured) -> None:
        metrics.LAG_RECORDS.labels(self._stage).set(left)
        self._measured = measured

    def _seconds(self) -> float:
        measured = self._measured
        silent = self._boot() - measured.asked_at
        return max(measured.seconds, silent) if silent > _SILENCE_SECONDS else measured.seconds
