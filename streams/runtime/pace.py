"""How often a stage's tasks are punctuated: less often while they have nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import REST_SECONDS

_TICK_MS = 1.0
"""How much a wait may fall short: less than this is not worth another wait."""


class Pace:
    """When the next punctuation of a stage is `due`, in milliseconds of the clock `now`."""

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._every = seconds * 1000
        self._now = now
        self.due = now()

    def wait(self) -> float:
        """Milliseconds until it is due."""
        return max(0.0, self.due - self._now())

    def take_due(self, at_least: float = 0.0) -> bool:
        """Whether it is due; if so, the next one follows at the stage's own pace, or later."""
        due = self.wait() < _TICK_MS
        if due:
            self.due = self._now() + max(self._every, at_least)
        return due

    def followed(self, worked: bool, punctuated: Sequence[PartitionTask]) -> None:
        """Note a step: the next punctuation comes soon after work, and late after rest."""
        if worked:
            self.due = min(self.due, self._now() + self._every)
        elif punctuated and all(task.rests() for task in punctuated):
            self.due = max(self.due, self._now() + REST_SECONDS * 1000)
