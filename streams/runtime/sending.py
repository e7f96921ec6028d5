"""What a transaction sends: the tasks' outputs and changelog records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from streams.runtime.failures import REFUSED
from streams.runtime.task import ChangelogRecord, Task

_Watch = Callable[[KafkaError | None, Message], None]
_Message = tuple[str, bytes | None, bytes | None, int, _Watch | None, None, int, Any]
"""What `Producer.produce` takes, by position: topic, value, key, partition, callback, its other
name, timestamp, headers. Keywords would double what the call costs."""


class Sending:
    """One transaction's records on their way.

    Only the last changelog record of each store is watched, for its offset: a Python call
    for each record would cost more than the record. With `watch_all` every record is, and
    `refused` says which the broker will never take.
    """

    def __init__(self, producer: Producer, prefix: str, *, watch_all: bool) -> None:
        self.refused: list[str] = []
        self._producer = producer
        self._prefix = prefix
        self._watch_all = watch_all
        self._ends: dict[tuple[int, str], int] = {}

    def send(self, tasks: Sequence[Task]) -> int:
        """Hand everything to the producer; the number of changelog records.

        Raises:
            KafkaException: a record is refused before it is sent.
        """
        written = 0
        for task in tasks:
            self._produce(self._outputs(task))
            for name, topic, records in task.changelog():
                self._produce(self._changes(task.partition, name, topic, records))
                written += len(records)
        return written

    def ends(self, task: Task) -> dict[str, int]:
        """Once all is delivered: the offset behind each changed store's last record."""
        return {name: end for (partition, name), end in self._ends.items()
                if partition == task.partition}  # fmt: skip

    def _outputs(self, task: Task) -> Iterator[_Message]:
        prefix, watch = self._prefix, self._watch() if self._watch_all else None
        for topic, key, value, partition, headers, timestamp in task.ctx.outputs:
            more = list(headers) if headers else None
            yield prefix + topic, value, key, partition, watch, None, timestamp or 0, more

    def _changes(
        self, partition: int, store: str, topic: str, records: Sequence[ChangelogRecord]
    ) -> Iterator[_Message]:
        topic, last, noted = self._prefix + topic, len(records) - 1, self._watch((partition, store))
        watch = noted if self._watch_all else None
        for i, (key, value, timestamp) in enumerate(records):
            watching = noted if i == last else watch
            yield topic, value, key, partition, watching, None, timestamp, None

    def _produce(self, messages: Iterable[_Message]) -> None:
        produce = self._producer.produce
        for message in messages:
            while True:
                try:
                    produce(*message)
                    break
                except BufferError:
                    self._producer.poll(0.05)

    def _watch(self, store: tuple[int, str] | None = None) -> _Watch:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None and error.code() in REFUSED:
                self.refused.append(f"{message.topic()}-{message.partition()}: {error.name()}")
            elif error is None and store is not None:
                self._ends[store] = (message.offset() or 0) + 1

        return delivered
