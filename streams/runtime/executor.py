"""One step of a stage: process records, punctuate, initiate, and commit all of it together.

If the broker refuses an output for good, the executor does the step again in parts. It halves the
records until the guilty one is alone, and sends that one to `dlq`. Then it runs each task's
punctuation alone. Then it runs what each task initiates, with ever smaller limits, until the guilty
output is alone, and its processor drops that one. So no step is repeated for ever, innocent records
are not lost, and one guilty record among thousands costs tens of transactions, not thousands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Protocol

import structlog

from streams.dead_letter import TOPIC as DLQ
from streams.errors import ConfigError, StageFailed
from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import Record
from streams.tracing import steps

log = structlog.get_logger(__name__)

_PARTITION = itemgetter(1)  # of a record; by name costs double


_MOST_REFUSED = 16
"""How many refused outputs of `initiate` one step looks for; the next step finds the rest."""

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


class Transactions(Protocol):
    """Makes tasks' outputs, changes and positions true together."""

    def commit(self, tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
        """Commit and notify the tasks.

        Every transaction sends the positions of its tasks, changed or not: without a valid offset
        the broker does not check the group's fencing. `alone` says that one record or punctuation
        is being tried by itself, so that a refusal can be attributed to it.

        Raises:
            OutputRefused: nothing was committed, and trying the same again is useless.
        """


class Executor:
    """Runs steps over the tasks of one process."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def step(
        self,
        batch: Sequence[Work],
        due: Sequence[PartitionTask],
        others: Sequence[PartitionTask] = (),
    ) -> None:
        """Process each task's records in order, punctuate the due tasks, commit once.

        Each of these tasks also initiates what it has to. The positions of `others` that wait are
        committed with them, or alone once they have waited long enough.
        """
        tasks = _each(batch, due)
        initiating = [task for task in tasks if task.initiates]
        try:
            self._together(batch, due, initiating, others)
        except OutputRefused as refused:
            log.warning("an output was refused: looking for its cause", detail=refused.detail)
            with _by_topics(tasks):
                self._find(batch, due, initiating)

    def _find(
        self,
        batch: Sequence[Work],
        due: Sequence[PartitionTask],
        initiating: Sequence[PartitionTask],
    ) -> None:
        work = [(task, record) for task, records in batch for record in records]
        if initiating:  # initiated outputs are the likelier cause
            self._within(work)
        else:
            self._apart(work)
        for task in due:
            self._punctuate_alone(task)
        for task in initiating:
            self._initiate_alone(task)

    def _together(
        self,
        batch: Sequence[Work],
        due: Sequence[PartitionTask] = (),
        initiating: Sequence[PartitionTask] = (),
        others: Sequence[PartitionTask] = (),
    ) -> None:
        self._begin(batch)
        for task, records in batch:
            task.process(records)
        for task in due:
            task.punctuate()
        for task in initiating:
            task.initiate()
        self._commit(_each(batch, due), others)

    def _begin(self, batch: Sequence[Work]) -> None:
        stage = batch[0][0].stage.name if batch else ""
        steps.begin(stage, [records for _, records in batch])

    def _commit(
        self,
        tasks: Sequence[PartitionTask],
        others: Sequence[PartitionTask] = (),
        *,
        alone: bool = False,
    ) -> None:
        for task in tasks:
            task.finish()
        tasks = list(dict.fromkeys((*tasks, *others)))
        if any(task.due for task in tasks):
            self.commit([task for task in tasks if task.dirty], alone=alone)
        for task in tasks:
            task.advanced()
        steps.end()

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

    def _within(self, work: Sequence[tuple[PartitionTask, Record]]) -> None:
        """Do the work, and send the records whose outputs are refused to `dlq`."""
        tasks = {task.partition: task for task, _ in work}
        try:
            self._together(by_task(tasks, [record for _, record in work]))
        except OutputRefused:
            self._apart(work)

    def _apart(self, work: Sequence[tuple[PartitionTask, Record]]) -> None:
        if len(work) < 2:
            for task, record in work:
                self._alone(task, record)
            return
        middle = len(work) // 2
        self._within(work[:middle])
        self._within(work[middle:])

    def _alone(self, task: PartitionTask, record: Record) -> None:
        self._begin([(task, [record])])
        task.process([record])
        refused = self._refusal(task, alone=True)
        if refused is not None:
            task.refuse(record, "output_refused", refused.detail)
            self._pass_by(task, record)

    def _pass_by(self, task: PartitionTask, record: Record) -> None:
        refused = self._refusal(task, alone=True)
        if refused is not None:
            raise ConfigError(
                f"the broker refuses even the dead letter of {record.topic}-{record.partition} "
                f"at {record.offset} ({refused.detail}): mend the topic {DLQ}, "
                "as `tidegate topology plan` says; until then nothing behind it is done"
            )

    def _punctuate_alone(self, task: PartitionTask) -> None:
        task.punctuate()
        refused = self._refusal(task, alone=True)
        if refused is not None:
            log.error("what a punctuation did is refused: undone", detail=refused.detail)
            task.put_off()

    def _initiate_alone(self, task: PartitionTask) -> None:
        for _ in range(_MOST_REFUSED):
            forwarded = task.initiate()
            refused = self._refusal(task)
            if refused is None:
                return
            self._search(task, forwarded or 1)

    def _search(self, task: PartitionTask, among: int) -> None:
        """Find the guilty output among the first `among`; commit the innocent ones on the way."""
        while among > 0:
            limit = max(1, among // 2)
            task.initiate(limit)
            outputs = [(topic, own[0].key) for topic, _, own in task.outputs]
            refused = self._refusal(task, alone=limit == 1)
            if refused is not None and limit == 1:
                self._drop(task, refused, outputs)
                return
            among = limit if refused is not None else among - limit

    def _drop(
        self, task: PartitionTask, refused: OutputRefused, outputs: Sequence[Destination]
    ) -> None:
        if not outputs:
            raise StageFailed(
                f"stage {task.stage.name}: the broker refuses a change of its state "
                f"({refused.detail}): see that its changelogs are as `tidegate topology plan` "
                "says, and start the stage again"
            )
        blamed = refused.output
        output = blamed if blamed and blamed in outputs else outputs[0]
        task.drop_refused(*output, refused.detail, refused.missing)
        again = self._refusal(task, alone=True)
        if again is not None:
            raise ConfigError(
                f"the broker refuses even what takes the place of {output[1]!r} for {output[0]} "
                f"({again.detail}): mend the topics, as `tidegate topology plan` says"
            )

    def _refusal(self, task: PartitionTask, *, alone: bool = False) -> OutputRefused | None:
        """Commit what one task did; return how the broker refused it, or None."""
        try:
            self._commit([task], alone=alone)
        except OutputRefused as refused:
            return refused
        return None


def _each(batch: Sequence[Work], due: Sequence[PartitionTask]) -> list[PartitionTask]:
    """The tasks of a batch and those due, each once."""
    return list(dict.fromkeys((*(task for task, _ in batch), *due)))


@contextmanager
def _by_topics(tasks: Sequence[PartitionTask]) -> Iterator[None]:
    """Confine a fault to its stage: within the block, fused stages hand nothing to each other."""
    for task in tasks:
        task.hand_over = False
    try:
        yield
    finally:
        for task in tasks:
            task.hand_over = True


def by_task(
    tasks: Mapping[int, PartitionTask], records: Sequence[Record]
) -> list[tuple[PartitionTask, list[Record]]]:
    """Records by the task of their partition, in order; others are left out."""
    ordered = sorted(records, key=_PARTITION)
    return [(tasks[p], list(own)) for p, own in groupby(ordered, _PARTITION) if p in tasks]
