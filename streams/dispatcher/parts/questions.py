"""Asks workers who they are, and for credits.

A dispatcher that took a partition over knows no workers, so it asks all of them once. If jobs wait
for types whose workers have no credits here, it asks some of these workers to move credits from
other partitions.
"""

from __future__ import annotations

from collections.abc import Iterator

from streams.dispatcher.part import Part
from streams.dispatcher.replies import TOPIC
from streams.dispatcher.shared import Shared
from streams.dispatcher.silence import Silence
from streams.dispatcher.step import Step
from streams.serde.records import Reply, ReplyKind

_ASKED_AT_ONCE = 8
_EVERY_SECONDS = 0.1


class Questions(Part):
    """The questions of one partition to workers.

    A question is about no job: its `epoch` is the number of the partition that asks.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._greet = list(range(shared.topology.topics[TOPIC].partitions))
        self._next_at = 0.0
        self._silence = Silence(TOPIC)

    def initiate(self, step: Step) -> Iterator[None]:
        """Ask now; only the first greeting is repeated if it is undone."""
        if self._silence.holds(step.monotonic):
            return
        while self._greet:
            partition = self._greet.pop()
            step.on_undo(self._greet.append, partition)
            self._ask(step, "", "who", partition)
            yield
        if step.monotonic >= self._next_at:
            self._next_at = step.monotonic + _EVERY_SECONDS
            for pool in self.shared.queue.queues:
                yield from self._wanted(step, pool)

    def refused(self, step: Step, topic: str, key: str, detail: str, missing: bool) -> None:
        """Ask nothing for a while, because the broker takes no replies."""
        self._silence.refused(topic, step.monotonic)

    def _wanted(self, step: Step, pool: str) -> Iterator[None]:
        queue, workers = self.shared.queue, self.shared.workers
        types = queue.starving(pool)
        if not types:
            return
        most = min(_ASKED_AT_ONCE, len(queue.queues[pool]))
        for worker in workers.roster.to_ask(pool, types, most, step.monotonic):
            self._ask(step, worker.worker_id, "wanted", worker.work_partition)
            yield

    def _ask(self, step: Step, worker_id: str, kind: ReplyKind, partition: int) -> None:
        step.answer(Reply(worker_id, "", self.shared.partition, "", kind), partition)
