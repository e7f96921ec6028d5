"""Kafka as lists in memory: topics, and transactions that append to several at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from streams.runtime.clock import Clock
from streams.runtime.executor import OutputRefused
from streams.runtime.processor import Header, Record
from streams.runtime.task import Task
from streams.topology.model import Topology

CrashPoint = Literal["before_commit", "after_commit", "after_write"]
"""Nothing committed; committed, stores not yet written; both done."""


class Crashed(Exception):
    """The process of a stage is gone."""


class MemoryBroker:
    """Every topic's partitions, as lists of records; only committed ones are in them.

    A topic has the partitions its topology gives it, or `partitions` where it shares the
    topology's number.
    """

    def __init__(self, topology: Topology, partitions: int | None, clock: Clock) -> None:
        self.records: dict[tuple[str, int], list[Record]] = defaultdict(list)
        self._topology = topology
        self._partitions = partitions
        self._clock = clock

    def width(self, topic: str) -> int:
        """Partitions of a topic; those numbered by the topology follow `partitions`."""
        declared = self._topology.topics[topic].partitions
        shared = declared == self._topology.partitions
        return self._partitions if shared and self._partitions is not None else declared

    def check(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Raises OutputRefused where a broker would."""
        declared = self._topology.topics.get(topic)
        if declared is None or not 0 <= partition < self.width(topic):
            raise OutputRefused(f"{topic}-{partition}: UNKNOWN_TOPIC_OR_PART")
        if len(key or b"") + len(value or b"") > declared.max_message_bytes:
            raise OutputRefused(f"{topic}-{partition}: MSG_SIZE_TOO_LARGE")

    def append(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None,
        headers: Sequence[Header], timestamp: int | None,
    ) -> None:  # fmt: skip
        log = self.records[topic, partition]
        append_time = self._topology.topics[topic].timestamp == "append"
        at = self._clock.now() if append_time or timestamp is None else timestamp
        log.append(Record(topic, partition, len(log), at, key, value, tuple(headers)))


class MemoryTransactions:
    """`Transactions` of one stage over a memory broker; `armed` crashes the next one."""

    def __init__(self, broker: MemoryBroker, offsets: dict[tuple[str, int], int]) -> None:
        self._broker = broker
        self._offsets = offsets
        self.armed: CrashPoint | None = None

    def commit(self, tasks: Sequence[Task], *, alone: bool = False) -> None:
        for task in tasks:
            self._check(task)
        self._crash_if("before_commit")
        written = [(task, self._append(task)) for task in tasks]
        self._crash_if("after_commit")
        for task, offsets in written:
            task.committed(offsets)
        self._crash_if("after_write")

    def _check(self, task: Task) -> None:
        for topic, key, value, partition, _, _ in task.ctx.outputs:
            self._broker.check(topic, partition, key, value)
        for _, topic, records in task.changelog():
            for key, value, _ in records:
                self._broker.check(topic, task.partition, key, value)

    def _append(self, task: Task) -> dict[str, int]:
        for topic, key, value, partition, headers, timestamp in task.ctx.outputs:
            self._broker.append(topic, partition, key, value, headers, timestamp)
        offsets = {}
        for store, topic, records in task.changelog():
            for key, value, timestamp in records:
                self._broker.append(topic, task.partition, key, value, (), timestamp)
            offsets[store] = len(self._broker.records[topic, task.partition])
        for topic, position in task.positions.items():
            self._offsets[topic, task.partition] = position
        return offsets

    def _crash_if(self, point: CrashPoint) -> None:
        if self.armed == point:
            self.armed = None
            raise Crashed
