"""What a process that gives partitions back still writes about their acts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Event

import pytest

from streams.kafka import carrier


@dataclass
class PlayedAttempt:
    """An attempt that saves its progress, or does not."""

    lost: bool = False
    over: Event = field(default_factory=Event)


class PlayedOwned:
    """The attempts of one partition."""

    partitions = [0]  # noqa: RUF012

    def __init__(self, attempts: Sequence[PlayedAttempt]) -> None:
        self._attempts = attempts

    def take(self, partition: int, value: bytes, at: int) -> None: ...

    def read_to_end(self, partition: int) -> None: ...

    def carry(self) -> None: ...

    def release(self, partitions: Iterable[int], *, lost: bool = False) -> Sequence[PlayedAttempt]:
        return self._attempts


def test_what_is_not_saved_in_time_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "_SAVED_WITHIN_SECONDS", 0.0)
    saved, late = PlayedAttempt(), PlayedAttempt()
    saved.over.set()
    carrier._give_back(PlayedOwned([saved, late]), [0])
    assert (saved.lost, late.lost) == (False, True)
