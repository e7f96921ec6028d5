"""Endpoints' receivers as the delivery stage sees them: they answer, fail or hang, by dice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from simulation.chance import Dice
from streams.delivery.attempts import Attempt, Ended
from streams.delivery.history import Part
from streams.runtime.processor import Record

_HANG, _FAIL = 0.3, 0.3


class Receivers:
    """The `Sender` and the `History` of a world."""

    def __init__(self, dice: Dice, log_of: Callable[[str, int], Sequence[Record]]) -> None:
        self._dice = dice
        self._log_of = log_of
        self._under_way: dict[int, list[Attempt]] = defaultdict(list)
        self._asked = 0

    def send(self, partition: int, attempts: Sequence[Attempt]) -> None:
        self._under_way[partition] += attempts

    def ended(self, partition: int) -> list[Ended]:
        """Each attempt ends sooner or later."""
        under_way = self._under_way[partition]
        ended = [each for each in under_way if not self._chance(_HANG)]
        self._under_way[partition] = [each for each in under_way if each not in ended]
        return [self._end(each) for each in ended]

    def read(self, topic: str, partition: int, since: int, offset: int) -> Part | None:
        """A few records of a log, at the second time of asking."""
        if self._chance(0.5):
            return None
        log = [r for r in self._log_of(topic, partition) if r.offset >= offset]
        found = [r for r in log if offset >= 0 or r.timestamp >= since]
        part = found[:3]
        return Part(part, part[-1].offset + 1 if part else max(0, offset), part == found)

    def forget(self, partition: int) -> None:
        """The process that made these attempts, or read this log, has ended."""

    def lose(self, partition: int) -> None:
        """A new process knows nothing of the attempts of the one before it."""
        self._under_way.pop(partition, None)

    def _end(self, attempt: Attempt) -> Ended:
        ended = Ended(attempt.row, 1, 5, url=attempt.url, probe=attempt.probe, status=200)
        if not attempt.wanted():
            return Ended(attempt.row, 1, 5, error="withdrawn", blame="nobody")
        if self._chance(_FAIL):
            status = self._dice.of("status", self._asked).choice((500, 500, 500, 422, 410))
            return Ended(
                attempt.row, 1, 5, url=attempt.url, probe=attempt.probe, status=status, error="x"
            )
        return ended

    def _chance(self, share: float) -> bool:
        self._asked += 1
        return self._dice.chance(share, "receiver", self._asked)
