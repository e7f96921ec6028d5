"""What a transaction sends: the tasks' outputs and changelog records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from streams.runtime.failures import REFUSED
from streams.runtime.processor import Header
from streams.runtime.task import Task

_Watch = Callable[[KafkaError | None, Message], None]


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
        watch = self._watch() if self._watch_all else None
        written = 0
        for task in tasks:
            for topic, key, value, partition, headers, timestamp in task.ctx.outputs:
                self._produce(topic, key, value, partition, watch, timestamp, headers)
            for name, topic, records in task.changelog():
                last = len(records) - 1
                note = self._watch((task.partition, name))
                for i, (key, value, timestamp) in enumerate(records):
                    noting = note if i == last or self._watch_all else None
                    self._produce(topic, key, value, task.partition, noting, timestamp)
                written += len(records)
        return written

    def ends(self, task: Task) -> dict[str, int]:
        """Once all is delivered: the offset behind each changed store's last record."""
        return {name: end for (partition, name), end in self._ends.items()
                if partition == task.partition}  # fmt: skip

    def _produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int,
        watch: _Watch | None,
        timestamp: int | None,
        headers: Sequence[Header] = (),
    ) -> None:
        # All by position: keywords would double what the call costs.
        topic, at = self._prefix + topic, timestamp or 0
        more: Any = list(headers) if headers else None
        while True:
            try:
                return self._producer.produce(topic, value, key, partition, watch, None, at, more)
            except BufferError:
                self._producer.poll(0.05)

    def _watch(self, store: tuple[int, str] | None = None) -> _Watch:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None and error.code() in REFUSED:
                self.refused.append(f"{message.topic()}-{message.partition()}: {error.name()}")
            elif error is None and store is not None:
                self._ends[store] = (message.offset() or 0) + 1

        return delivered
