"""Asks workers for credits.

A worker shares its slots out among the owners of partitions. If jobs wait here for types whose
workers have no credits, it asks some of these workers to move credits to this process.
"""

from __future__ import annotations

from collections.abc import Iterator

from streams.dispatcher.part import Part
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.dispatcher.workers.credits import Worker
from streams.serde.link.messages import Wanted

_ASKED_AT_ONCE = 8
_EVERY_SECONDS = 0.1


class Questions(Part):
    """The questions of one partition to workers."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._next_at = 0.0

    def initiate(self, step: Step) -> Iterator[None]:
        """Ask now; a question that is undone is asked again with a later step."""
        if step.monotonic >= self._next_at:
            self._next_at = step.monotonic + _EVERY_SECONDS
            for pool in self.shared.queue.queues:
                yield from self._wanted(step, pool)

    def _wanted(self, step: Step, pool: str) -> Iterator[None]:
        queue = self.shared.queue
        types = queue.starving(pool)
        if not types:
            return
        most = min(_ASKED_AT_ONCE, len(queue.queues[pool]))
        roster = self.shared.workers.roster

        def may_run(worker: Worker) -> bool:
            return any(queue.has(pool, t, worker.tenants) for t in types & worker.handlers.keys())

        for worker in roster.to_ask(pool, may_run, most, step.monotonic):
            step.say(worker.worker_id, Wanted())
            yield
