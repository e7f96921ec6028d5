"""In which order the waits of a run that parks end, and which of them are over by their time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush

from streams import user_json
from streams.dispatcher.step import Step
from streams.errors import WaitRefused, WaitTimeout
from streams.serde.records import Job, StepResult, Wait, WaitGroup


class EndsInOrder:
    """What the waits of one park leave that are over, each with the place of its wait in the park.

    They come by their numbers; a refusal comes at `refused`, and what has no number at `last`. A
    time that was over before the park ends its wait before the first event that came after it.
    """

    def __init__(self, last: int, refused: int) -> None:
        self._last = last
        self._refused = refused
        self._ends: list[tuple[int, int, StepResult]] = []  # a heap, by number
        self._late: list[tuple[int, int, StepResult]] = []  # a heap, by when the time was over

    def add(self, place: int, left: StepResult, over_at: int | None = None) -> None:
        """Add what a wait leaves; `over_at` is when its time was over (milliseconds), if it was."""
        if over_at is not None:
            heappush(self._late, (over_at, place, left))
            return
        is_refused = left.raises == WaitRefused.__name__
        number = self._refused if is_refused else left.number or self._last
        heappush(self._ends, (number, place, left))

    def __iter__(self) -> Iterator[tuple[int, StepResult]]:
        """Take the ends, in their order; others may be added meanwhile."""
        while self._ends or self._late:
            if self._late_is_next():
                _, place, left = heappop(self._late)
                yield place, replace(left, number=self._next_event())
            else:
                _, place, left = heappop(self._ends)
                yield place, left

    def _late_is_next(self) -> bool:
        if not self._late or not self._ends:
            return bool(self._late)
        over_at, late, _ = self._late[0]
        number, place, left = self._ends[0]
        came_at = _came_at(left)
        return over_at < came_at if came_at is not None else (self._last, late) < (number, place)

    def _next_event(self) -> int:
        """The number of the event that is the next end; 0 if none is."""
        return self._ends[0][0] if self._ends and _came_at(self._ends[0][2]) is not None else 0


def over_at(step: Step, wait: Wait | None, left: StepResult) -> int | None:
    """When the time was over (milliseconds) that ends a wait as it begins, if that was before."""
    by_time = left.raises == WaitTimeout.__name__ or (left.kind, left.raises) == ("time", None)
    return wait.until if wait is not None and by_time and is_late(step, wait) else None


def late_since(step: Step, job: Job, wait: Wait) -> int | None:
    """When all groups of a wait that begins were over, because the time of one that is asked again
    was; None if they were not."""
    over = [_over_since(step, job, wait, group) for group in wait.groups or (None,)]
    return None if None in over else max(each for each in over if each is not None)


def _over_since(step: Step, job: Job, wait: Wait, group: WaitGroup | None) -> int | None:
    alone = group is None or group.needs_all
    waits = [wait] if alone else [each for each in job.waits if group in each.groups]
    return min((each.until or 0 for each in waits if is_late(step, each)), default=None)


def is_late(step: Step, wait: Wait) -> bool:
    """Whether the time of a wait that begins was over before."""
    return wait.at == step.now and wait.until is not None and wait.until < step.now


def _came_at(left: StepResult) -> int | None:
    """When the event came (milliseconds) that has ended a wait; None if none has."""
    if left.kind != "event" or left.raises is not None:
        return None
    at: int = user_json.read(left.value or "{}")["at"]
    return at
