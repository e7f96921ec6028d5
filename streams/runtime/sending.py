"""What a transaction sends: the tasks' outputs, changelog records and positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from streams.kafka.failures import MISSING, REFUSED
from streams.kafka.offsets import Place
from streams.runtime.link import LINK
from streams.runtime.partition_task import PartitionTask
from streams.state.store import Logged

_Watch = Callable[[KafkaError | None, Message], None]


class Refusal(NamedTuple):
    """A record that the broker will never take: its logical topic, its key, and why."""

    topic: str
    key: bytes | None
    detail: str
    missing: bool


class Sending:
    """One transaction's records on their way.

    Only the last changelog record of each store has a delivery callback, for its offset, and each
    record that goes to an own input of the stage: a Python call for each record would cost more
    than the record. With `watch_all` every record has one, and `refused` lists the records that the
    broker will never take.

    `produce` is called by position (topic, value, key, partition, callback, its other name,
    timestamp, headers): keywords would double the cost of the call. Headers are lists, as they are
    read and as `forward` makes them: `produce` takes no tuple.
    """

    def __init__(self, producer: Producer, prefix: str, *, watch_all: bool) -> None:
        self.refused: list[Refusal] = []
        self._producer = producer
        self._prefix = prefix
        self._watch_all = watch_all
        self._ends: dict[int, dict[str, int]] = defaultdict(dict)
        self._offsets: dict[Place, list[int]] = defaultdict(list)

    def send(self, tasks: Sequence[PartitionTask]) -> None:
        """Hand everything to the producer.

        Raises:
            KafkaException: a record is refused before it is sent.
        """
        for task in tasks:
            self._outputs(task)
            for name, topic, records, at in task.changelog():
                self._changes(task.partition, name, self._prefix + topic, records, at)

    def ends(self, task: PartitionTask) -> dict[str, int]:
        """The offset after each changed store's last record, once all records are delivered."""
        return self._ends[task.partition]

    def offsets(self, task: PartitionTask) -> dict[str, list[int]]:
        """The offsets of the records in each own input of a task, once all are delivered."""
        partition = task.partition
        return {
            topic: sorted(self._offsets[topic, partition])
            for topic in task.stage.own_inputs
            if (topic, partition) in self._offsets
        }

    def _outputs(self, task: PartitionTask) -> None:
        produce: Any = self._producer.produce
        watched = self._watch() if self._watch_all else None
        own = {topic: self._watch_offset(topic) for topic in task.stage.own_inputs}
        for logical, to, records in task.outputs:
            if logical == LINK:
                continue
            topic, watch = self._prefix + logical, own.get(logical, watched)
            for _, _, _, at, key, value, headers in records:
                try:
                    produce(topic, value, key, to, watch, None, at, headers or None)
                except BufferError:
                    self._insist(topic, value, key, to, watch, None, at, headers or None)
                except KafkaException as error:
                    self._note(error.args[0], topic, to, key)
                    raise

    def _changes(self, partition: int, store: str, topic: str, records: Logged, at: int) -> None:
        produce: Any = self._producer.produce
        noted = self._watch((partition, store))
        watch = noted if self._watch_all else None
        *some, last = records
        for (key, value), watching in chain(zip(some, repeat(watch)), [(last, noted)]):
            try:
                produce(topic, value, key, partition, watching, None, at)
            except BufferError:
                self._insist(topic, value, key, partition, watching, None, at)
            except KafkaException as error:
                self._note(error.args[0], topic, partition, key)
                raise

    def _insist(self, *record: Any) -> None:
        while True:
            self._producer.poll(0.05)
            try:
                return self._producer.produce(*record)
            except BufferError:
                continue

    def _watch(self, store: tuple[int, str] | None = None) -> _Watch:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._note(error, message.topic() or "", message.partition() or 0, message.key())
            elif store is not None:
                partition, name = store
                self._ends[partition][name] = (message.offset() or 0) + 1

        return delivered

    def _watch_offset(self, topic: str) -> _Watch:
        noted = self._watch()

        def delivered(error: KafkaError | None, message: Message) -> None:
            noted(error, message)
            if error is None:
                self._offsets[topic, message.partition() or 0].append(message.offset() or 0)

        return delivered

    def _note(self, error: KafkaError, topic: str, partition: int, key: bytes | None) -> None:
        if error.code() in REFUSED:
            detail = f"{topic}-{partition}: {error.name()}"
            missing = error.code() in MISSING
            self.refused.append(Refusal(topic.removeprefix(self._prefix), key, detail, missing))


def positions(prefix: str, tasks: Sequence[PartitionTask]) -> list[TopicPartition]:
    """The next offset of each input of each task."""
    return [
        TopicPartition(prefix + topic, task.partition, offset)
        for task in tasks
        for topic, offset in task.positions.items()
    ]
