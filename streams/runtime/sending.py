"""What a transaction sends: the tasks' outputs and changelog records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from streams.runtime.failures import REFUSED
from streams.runtime.task import Task
from streams.state.overlay import Change

_Watch = Callable[[KafkaError | None, Message], None]
_Record = tuple[str, bytes | None, bytes | None, int, _Watch | None, None, int, Any]
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
            self._outputs(task)
            for name, topic, changes, default in task.changelog():
                self._changes(task.partition, name, self._prefix + topic, changes, default)
                written += len(changes)
        return written

    def ends(self, task: Task) -> dict[str, int]:
        """Once all is delivered: the offset behind each changed store's last record."""
        return {name: end for (partition, name), end in self._ends.items()
                if partition == task.partition}  # fmt: skip

    def _outputs(self, task: Task) -> None:
        prefix, produce = self._prefix, self._producer.produce
        watch = self._watch() if self._watch_all else None
        for topic, key, value, partition, headers, at in task.ctx.outputs:
            more: Any = list(headers) if headers else None
            record = prefix + topic, value, key, partition, watch, None, at or 0, more
            try:
                produce(*record)
            except BufferError:
                self._insist(record)

    def _changes(
        self, partition: int, store: str, topic: str, changes: dict[bytes, Change], default: int
    ) -> None:
        produce, noted = self._producer.produce, self._watch((partition, store))
        watch = noted if self._watch_all else None
        last = next(reversed(changes))
        for key, (value, at) in changes.items():
            watching = noted if key is last else watch
            record = topic, value, key, partition, watching, None, at or default, None
            try:
                produce(*record)
            except BufferError:
                self._insist(record)

    def _insist(self, record: _Record) -> None:
        while True:
            self._producer.poll(0.05)
            try:
                return self._producer.produce(*record)
            except BufferError:
                continue

    def _watch(self, store: tuple[int, str] | None = None) -> _Watch:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None and error.code() in REFUSED:
                self.refused.append(f"{message.topic()}-{message.partition()}: {error.name()}")
            elif error is None and store is not None:
                self._ends[store] = (message.offset() or 0) + 1

        return delivered
