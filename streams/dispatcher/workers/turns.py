"""Turns of the partitions of one process that wait for credits of one pool.

All partitions of a process share the credits of its workers. Without turns, the partition where a
job ends would take the credit again and again, and the jobs of the others would wait for ever.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

C = TypeVar("C")


class Turns(Generic[C]):
    """The partitions that wait, each with the crews that it could use; the first one is next."""

    def __init__(self) -> None:
        self._line: dict[int, Collection[C]] = {}

    def wait(self, partition: int, crews: Collection[C]) -> None:
        """Let a partition wait for credits of these crews; one that waits keeps its place."""
        if crews:
            self._line[partition] = crews
        else:
            self._line.pop(partition, None)

    def served(self, partition: int) -> None:
        """Let a partition that got a credit come last."""
        crews = self._line.pop(partition, None)
        if crews is not None:
            self._line[partition] = crews

    def crews(self, partition: int) -> Collection[C]:
        """The crews that a partition waits for."""
        return self._line.get(partition, ())

    def ahead(self, crew: C, partition: int) -> int:
        """How many partitions get a credit of a crew before this one does."""
        count = 0
        for other, crews in self._line.items():
            if other == partition:
                break
            count += crew in crews
        return count
