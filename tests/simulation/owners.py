"""Processes of one stage that own its partitions: one, or two that share them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from streams.runtime.memory_process import StageRun


class Owning(StageRun):
    """A process that owns the partitions of its stage, but for those of another process.

    Both have the group's offsets, and each has a machine of its own.
    """

    def __init__(self, *parts: Any, others: Collection[int] = ()) -> None:
        self._others = frozenset(others)
        super().__init__(*parts)

    def partitions(self) -> list[int]:
        return [p for p in super().partitions() if p not in self._others]

    def give_up(self, partition: int) -> None:
        """A partition is taken away; its workers hear of it."""
        self._others |= {partition}
        self.tasks.pop(partition).closed()
        self._announce(self.tasks.keys())

    def take_over(self, partition: int) -> None:
        """Restore a partition, and then announce it."""
        self._others -= {partition}
        self.begin(partition)

    def begin(self, partition: int) -> None:
        """Own a partition with nothing but what is committed of it."""
        self._announce(self.tasks.keys() - {partition})
        self.tasks[partition] = self._task(partition)
        self.tasks[partition].restored()
        self._announce(self.tasks.keys())

    def _announce(self, partitions: Collection[int]) -> None:
        self._logs_known = 0
        if self.link is not None:
            self.link.owned(partitions)
