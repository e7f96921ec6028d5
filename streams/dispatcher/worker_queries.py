"""Asks workers who they are, and for credits.

A dispatcher that took a partition over knows no workers, so it asks all of them once. If jobs wait
for types whose workers have no credits here, it asks some of these workers to move credits from
other partitions.
"""

from __future__ import annotations

from collections.abc import Iterator

from streams.dispatcher.replies import TOPIC
from streams.dispatcher.run_queue import RunQueue
from streams.serde.records import Reply, ReplyKind
from streams.topology.model import Topology

_ASKED_AT_ONCE = 8
_EVERY_SECONDS = 0.1
_REFUSED_SECONDS = 30.0


class Asking:
    """The questions of one partition; each is a reply and the partition to send it to.

    A question is about no job: its `epoch` is the number of the partition that asks.
    """

    def __init__(self, topology: Topology, run_queue: RunQueue, partition: int) -> None:
        self._run_queue = run_queue
        self._partition = partition
        self._greet = list(range(topology.topics[TOPIC].partitions))
        self._greeted: list[int] = []  # not yet durable
        self._next_at = 0.0
        self._silent_until = float("-inf")

    def questions(self, monotonic: float) -> Iterator[tuple[Reply, int]]:
        """Yield what to ask now; a question that was yielded counts as asked."""
        if monotonic < self._silent_until:
            return
        while self._greet:
            self._greeted.append(self._greet.pop())
            yield self._ask("", "who"), self._greeted[-1]
        if monotonic >= self._next_at:
            self._next_at = monotonic + _EVERY_SECONDS
            for pool in self._run_queue.queues:
                yield from self._wanted(pool, monotonic)

    def refused(self, monotonic: float) -> None:
        """Ask nothing for a while, because the broker takes no replies."""
        self._silent_until = monotonic + _REFUSED_SECONDS

    def committed(self) -> None:
        """Note that the questions so far are durable."""
        self._greeted.clear()

    def undone(self) -> None:
        """Ask again where a first question was aborted; other questions repeat by themselves."""
        self._greet += self._greeted
        self._greeted.clear()

    def _wanted(self, pool: str, monotonic: float) -> Iterator[tuple[Reply, int]]:
        types = self._run_queue.starving(pool)
        if not types:
            return
        most = min(_ASKED_AT_ONCE, len(self._run_queue.queues[pool]))
        for worker in self._run_queue.registry.to_ask(pool, types, most, monotonic):
            yield self._ask(worker.worker_id, "wanted"), worker.work_partition

    def _ask(self, worker_id: str, kind: ReplyKind) -> Reply:
        return Reply(worker_id, "", self._partition, "", kind)
