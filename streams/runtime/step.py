"""One step over tasks: process records, punctuate, initiate, and commit all of it together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import Record
from streams.tracing import steps

_PARTITION = itemgetter(1)  # of a record; by name costs double

Work = tuple[PartitionTask, Sequence[Record]]
"""A task, and records for it."""

Destination = tuple[str, bytes | None]
"""Logical topic and key of an output."""


class OutputRefused(Exception):
    """The broker will never take an output; nothing was committed.

    `output` is its logical topic and key where they are known; `missing` says that its topic or
    partition does not exist.
    """

    def __init__(
        self, detail: str, output: Destination | None = None, *, missing: bool = False
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.output = output
        self.missing = missing


class TransactionAborted(Exception):
    """Nothing was committed; the same work may succeed another time."""


class Transactions(Protocol):
    """Makes tasks' outputs, changes and positions true together."""

    def commit(self, tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
        """Commit and notify the tasks.

        Every transaction sends the positions of its tasks, changed or not: without a valid offset
        the broker does not check the group's fencing. `alone` says that one record or punctuation
        is being tried by itself, so that a refusal can be attributed to it.

        Raises:
            OutputRefused: nothing was committed, and trying the same again is useless.
            TransactionAborted: nothing was committed.
        """


class Stepping:
    """Takes steps; if an output is refused, the tasks are as they were before the step."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def together(
        self,
        batch: Sequence[Work],
        due: Sequence[PartitionTask] = (),
        initiating: Sequence[PartitionTask] = (),
        others: Sequence[PartitionTask] = (),
    ) -> bool:
        """Take one step; the positions of `others` that wait are committed with it.

        Returns whether anything was committed.

        Raises:
            OutputRefused: nothing was committed.
        """
        self.begin(batch)
        for task, records in batch:
            task.process(records)
        for task in due:
            task.punctuate()
        for task in initiating:
            task.initiate()
        return self.end(each(batch, [*due, *initiating]), others)

    def begin(self, batch: Sequence[Work]) -> None:
        """Begin to trace a step over these records."""
        stage = batch[0][0].stage.name if batch else ""
        steps.begin(stage, [records for _, records in batch])

    def end(
        self,
        tasks: Sequence[PartitionTask],
        others: Sequence[PartitionTask] = (),
        *,
        alone: bool = False,
    ) -> bool:
        """Commit what these tasks did, unless only positions moved: those may wait."""
        for task in tasks:
            task.finish()
        tasks = list(dict.fromkeys((*tasks, *others)))
        due = any(task.due for task in tasks)
        if due:
            self.commit([task for task in tasks if task.dirty], alone=alone)
        for task in tasks:
            task.advanced()
        steps.end()
        return due

    def commit(self, tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
        """Commit these tasks now; if an output is refused, they return to their last step.

        Raises:
            OutputRefused: nothing was committed.
        """
        try:
            self._transactions.commit(tasks, alone=alone)
        except OutputRefused:
            for task in tasks:
                task.rollback()
            raise

    def refusal(self, task: PartitionTask, *, alone: bool = False) -> OutputRefused | None:
        """Commit what one task did; return how the broker refused it, or None."""
        try:
            self.end([task], alone=alone)
        except OutputRefused as refused:
            return refused
        return None


def each(batch: Sequence[Work], due: Sequence[PartitionTask]) -> list[PartitionTask]:
    """The tasks of a batch and those due, each once."""
    return list(dict.fromkeys((*(task for task, _ in batch), *due)))


def by_task(
    tasks: Mapping[int, PartitionTask], records: Sequence[Record]
) -> list[tuple[PartitionTask, list[Record]]]:
    """Records by the task of their partition, in order; others are left out."""
    ordered = sorted(records, key=_PARTITION)
    return [(tasks[p], list(own)) for p, own in groupby(ordered, _PARTITION) if p in tasks]
