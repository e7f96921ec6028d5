"""One step of a stage: process what was read, punctuate what is due, commit both together.

Where the broker refuses an output for good, the step is done again by halves, down to the guilty
input alone, which goes to `dlq`: nothing rewinds for ever, and a record in a batch of thousands
costs tens of transactions, not thousands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Protocol

import structlog

from streams.errors import ConfigError
from streams.runtime.poison import TOPIC as DLQ
from streams.runtime.processor import Record
from streams.runtime.task import Task

log = structlog.get_logger(__name__)

_PARTITION = itemgetter(1)  # of a record; by name costs double


class OutputRefused(Exception):
    """The broker will never take an output; nothing was committed."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Transactions(Protocol):
    """Makes tasks' outputs, changes and positions true together."""

    def commit(self, tasks: Sequence[Task], *, alone: bool = False) -> None:
        """Commit and tell the tasks so.

        Every transaction sends the positions of its tasks, changed or not: without a valid
        offset the group's fencing is not asked. `alone` says that one record or punctuation
        is being tried by itself, so that a refusal can be laid at its door.

        Raises:
            OutputRefused: nothing was committed, and trying the same again is useless.
        """


class Executor:
    """Runs steps over the tasks of one process."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def step(self, batch: Sequence[tuple[Task, Sequence[Record]]], due: Sequence[Task]) -> None:
        """Process each task's records in order, punctuate the due tasks, commit once."""
        try:
            self._together(batch, due)
        except OutputRefused as refused:
            log.warning("an output was refused: looking for its record", detail=refused.detail)
            self._apart([(task, record) for task, records in batch for record in records])
            for task in due:
                self._punctuate_alone(task)

    def _together(
        self, batch: Sequence[tuple[Task, Sequence[Record]]], due: Sequence[Task]
    ) -> None:
        for task, records in batch:
            task.process(records)
        for task in due:
            task.punctuate()
        changed = {id(task): task for task in (*(task for task, _ in batch), *due) if task.dirty}
        if not changed:
            return
        try:
            self._transactions.commit(list(changed.values()))
        except OutputRefused:
            for task in changed.values():
                task.rollback()
            raise

    def _apart(self, work: Sequence[tuple[Task, Record]]) -> None:
        if len(work) < 2:
            for task, record in work:
                self._alone(task, record)
            return
        middle = len(work) // 2
        for half in (work[:middle], work[middle:]):
            tasks = {task.partition: task for task, _ in half}
            try:
                self._together(by_task(tasks, [record for _, record in half]), ())
            except OutputRefused:
                self._apart(half)

    def _alone(self, task: Task, record: Record) -> None:
        task.process([record])
        try:
            self._transactions.commit([task], alone=True)
        except OutputRefused as refused:
            task.rollback()
            task.refuse(record, "output_refused", refused.detail)
            self._pass_by(task, record)

    def _pass_by(self, task: Task, record: Record) -> None:
        try:
            self._transactions.commit([task], alone=True)
        except OutputRefused as refused:
            task.rollback()
            raise ConfigError(
                f"the broker refuses even the dead letter of {record.topic}-{record.partition} "
                f"at {record.offset} ({refused.detail}): mend the topic {DLQ}, "
                "as `tidegate topology plan` says; until then nothing behind it is done"
            ) from refused

    def _punctuate_alone(self, task: Task) -> None:
        task.punctuate()
        if not task.dirty:
            return
        try:
            self._transactions.commit([task], alone=True)
        except OutputRefused as refused:
            log.error("what a punctuation did is refused: undone", detail=refused.detail)
            task.rollback()


def by_task(
    tasks: Mapping[int, Task], records: Sequence[Record]
) -> list[tuple[Task, list[Record]]]:
    """Records by the task of their partition, in order; those of no task here are left out."""
    ordered = sorted(records, key=_PARTITION)
    return [(tasks[p], list(own)) for p, own in groupby(ordered, _PARTITION) if p in tasks]
