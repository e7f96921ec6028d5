"""Kafka as lists in memory: topics, and transactions that append to several at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

from streams.runtime.clock import Clock
from streams.runtime.context import Output
from streams.runtime.link import LINK, Link, handing_out
from streams.runtime.own_records import Written
from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import Record
from streams.runtime.step import OutputRefused, TransactionAborted
from streams.topology.model import Topology

CrashPoint = Literal[
    "received",
    "positions_sent",
    "produced",
    "before_commit",
    "after_commit",
    "between_writes",
    "after_write",
]
"""The points of a commit at which a process can die, in the order of the commit's steps.

`received`: records are processed and no transaction is begun. `positions_sent`: the positions are
in the transaction. `produced`: one task's records are in it. `before_commit`: all are.
`after_commit`: it is committed and no store is written. `between_writes`: one store is written.
`after_write`: all are.
"""


class Crashed(Exception):
    """The process of a stage has died."""


class MemoryBroker:
    """Every topic's partitions, as lists of records that contain only committed ones.

    A topic has the partitions that its topology gives it, or `partitions` if it shares the
    topology's number.
    """

    def __init__(self, topology: Topology, partitions: int | None, clock: Clock) -> None:
        self.records: dict[tuple[str, int], list[Record]] = defaultdict(list)
        self._topology = topology
        self._partitions = partitions
        self._clock = clock

    def width(self, topic: str) -> int:
        """Partitions of a topic; topics that use the topology's number get `partitions`."""
        declared = self._topology.topics[topic].partitions
        shared = declared == self._topology.partitions
        return self._partitions if shared and self._partitions is not None else declared

    def check(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Raise OutputRefused where a broker would refuse."""
        declared = self._topology.topics.get(topic)
        if declared is None or not 0 <= partition < self.width(topic):
            detail = f"{topic}-{partition}: UNKNOWN_TOPIC_OR_PART"
            raise OutputRefused(detail, (topic, key), missing=True)
        if len(key or b"") + len(value or b"") > declared.max_message_bytes:
            raise OutputRefused(f"{topic}-{partition}: MSG_SIZE_TOO_LARGE", (topic, key))

    def append(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        log = self.records[topic, partition]
        append_time = self._topology.topics[topic].timestamp == "append"
        for _, _, _, timestamp, key, value, headers in records:
            at = self._clock.now() if append_time or not timestamp else timestamp
            log.append(Record(topic, partition, len(log), at, key, value, list(headers)))


class MemoryTransactions:
    """`Transactions` of one stage over a memory broker, in the steps of those on Kafka."""

    def __init__(self, broker: MemoryBroker, offsets: dict[tuple[str, int], int]) -> None:
        self._broker = broker
        self._offsets = offsets
        self.link: Link | None = None
        self.armed: CrashPoint | None = None
        self._passes = 1
        self._aborts = 0

    def arm(self, point: CrashPoint, times: int) -> None:
        """Crash when a commit passes this point for the `times`-th time from now."""
        self.armed, self._passes = point, times

    def abort(self, times: int) -> None:
        """Abort the next transactions, so many of them."""
        self._aborts = times

    def commit(self, tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
        for task in tasks:
            self._check(task)
        self.passed("received")
        positions = {(t, task.partition): at for task in tasks for t, at in task.positions.items()}
        self.passed("positions_sent")
        sent: list[Output] = []
        for task in tasks:
            sent += _outputs(task)
            self.passed("produced")
        if self._aborts:
            self._aborts -= 1
            raise TransactionAborted
        self.passed("before_commit")
        self._offsets.update(positions)
        begins = [self._lengths(task) for task in tasks]
        for output in sent:
            self._broker.append(*output)
        self.passed("after_commit")
        hand_out = handing_out(self.link, tasks)
        for task, begun in zip(tasks, begins, strict=True):
            task.committed(self._ends(task), self._written(task, begun))
        self.passed("after_write")
        hand_out()

    def passed(self, point: CrashPoint) -> None:
        """Crash if this point is armed and due."""
        if self.armed == point:
            self._passes -= 1
            if self._passes == 0:
                self.armed = None
                raise Crashed

    def _check(self, task: PartitionTask) -> None:
        for topic, partition, records in _outputs(task):
            for record in records:
                self._broker.check(topic, partition, record.key, record.value)

    def _lengths(self, task: PartitionTask) -> dict[str, int]:
        places = ((topic, task.partition) for topic in task.stage.own_inputs)
        return {place[0]: len(self._broker.records[place]) for place in places}

    def _written(self, task: PartitionTask, begun: dict[str, int]) -> dict[str, Written]:
        """What its own inputs got since they were so long; here no mark ends a transaction."""
        return {
            topic: Written(begun[topic], begun[topic], length - 1, length - begun[topic])
            for topic, length in self._lengths(task).items()
            if length > begun[topic]
        }

    def _ends(self, task: PartitionTask) -> dict[str, int]:
        return {
            store: len(self._broker.records[topic, task.partition])
            for store, topic, *_ in task.changelog()
        }


def _outputs(task: PartitionTask) -> Iterator[Output]:
    """Everything a task sends: its outputs, then the changelog of each store."""
    yield from (output for output in task.outputs if output[0] != LINK)
    for _, topic, logged, at in task.changelog():
        records = [Record(topic, task.partition, 0, at, key, value) for key, value in logged]
        yield topic, task.partition, records
