"""One step of a stage: process records, punctuate, initiate, and commit all of it together.

If the broker refuses an output for good, the executor does the step again in parts. It halves the
records until the guilty one is alone, and sends that one to `dlq`. Then it runs each task's
punctuation alone. Then it runs what each task initiates, with ever smaller limits, until the guilty
output is alone, and its processor drops that one. So no step is repeated for ever, innocent records
are not lost, and one guilty record among thousands costs tens of transactions, not thousands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog

from streams.dead_letter import TOPIC as DLQ
from streams.errors import ConfigError, StageFailed
from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import Record
from streams.runtime.step import (
    Destination,
    OutputRefused,
    Stepping,
    Transactions,
    Work,
    by_task,
    each,
)

log = structlog.get_logger(__name__)

_MOST_REFUSED = 16
"""How many refused outputs of `initiate` one step looks for; the next step finds the rest."""


class Executor:
    """Runs steps over the tasks of one process."""

    def __init__(self, transactions: Transactions) -> None:
        self._stepping = Stepping(transactions)

    def step(
        self,
        batch: Sequence[Work],
        due: Sequence[PartitionTask],
        others: Sequence[PartitionTask] = (),
        stirred: Sequence[PartitionTask] = (),
    ) -> bool:
        """Process each task's records in order, punctuate the due tasks, commit once.

        Each of these tasks, and those that were `stirred`, also initiates what it has to. The
        positions of `others` that wait are
        committed with them, or alone once they have waited long enough. Returns whether anything
        was committed.
        """
        tasks = each(batch, [*due, *stirred])
        initiating = [task for task in tasks if task.initiates]
        try:
            return self._stepping.together(batch, due, initiating, others)
        except OutputRefused as refused:
            log.warning("an output was refused: looking for its cause", detail=refused.detail)
            with _by_topics(tasks):
                self._find(batch, due, initiating)
            return True

    def commit(self, tasks: Sequence[PartitionTask]) -> None:
        """Commit these tasks now."""
        self._stepping.commit(tasks)

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

    def _within(self, work: Sequence[tuple[PartitionTask, Record]]) -> None:
        """Do the work, and send the records whose outputs are refused to `dlq`."""
        tasks = {task.partition: task for task, _ in work}
        try:
            self._stepping.together(by_task(tasks, [record for _, record in work]))
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
        self._stepping.begin([(task, [record])])
        task.process([record])
        refused = self._stepping.refusal(task, alone=True)
        if refused is not None:
            task.refuse(record, "output_refused", refused.detail)
            self._pass_by(task, record)

    def _pass_by(self, task: PartitionTask, record: Record) -> None:
        refused = self._stepping.refusal(task, alone=True)
        if refused is not None:
            raise ConfigError(
                f"the broker refuses even the dead letter of {record.topic}-{record.partition} "
                f"at {record.offset} ({refused.detail}): mend the topic {DLQ}, "
                "as `tidegate topology plan` says; until then nothing behind it is done"
            )

    def _punctuate_alone(self, task: PartitionTask) -> None:
        task.punctuate()
        refused = self._stepping.refusal(task, alone=True)
        if refused is not None:
            log.error("what a punctuation did is refused: undone", detail=refused.detail)
            task.put_off()

    def _initiate_alone(self, task: PartitionTask) -> None:
        for _ in range(_MOST_REFUSED):
            forwarded = task.initiate()
            refused = self._stepping.refusal(task)
            if refused is None:
                return
            self._search(task, forwarded or 1)

    def _search(self, task: PartitionTask, among: int) -> None:
        """Find the guilty output among the first `among`; commit the innocent ones on the way."""
        while among > 0:
            limit = max(1, among // 2)
            task.initiate(limit)
            outputs = [(topic, own[0].key) for topic, _, own in task.outputs]
            refused = self._stepping.refusal(task, alone=limit == 1)
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
        again = self._stepping.refusal(task, alone=True)
        if again is not None:
            raise ConfigError(
                f"the broker refuses even what takes the place of {output[1]!r} for {output[0]} "
                f"({again.detail}): mend the topics, as `tidegate topology plan` says"
            )


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
