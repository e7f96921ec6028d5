"""A consumer that has its messages in memory, for readers of `events` without a broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition


class PlayedMessage:
    """A record, or with an error the end of a partition or what else Kafka says of it."""

    def __init__(self, partition: int, offset: int, value: bytes | None, error: int = 0) -> None:
        self._place, self._value = (partition, offset), value
        self._error = KafkaError(error) if error else None

    def topic(self) -> str:
        return "events"

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def value(self) -> bytes | None:
        return self._value

    def error(self) -> KafkaError | None:
        return self._error

    def headers(self) -> list[tuple[str, bytes]]:
        return []

    def timestamp(self) -> tuple[int, int]:
        return (1, 1_700_000_000_000)


class PlayedConsumer:
    """Hands out at most three records of each partition at a time, and the ends of partitions."""

    def __init__(self, logs: Sequence[Sequence[bytes]], topic: str = "events") -> None:
        self._logs, self._topic = logs, topic
        self._begin: Callable[..., Any] | None = None
        self._next: dict[int, int] = {}
        self._polled: list[PlayedMessage] = []

    def subscribe(self, _: Sequence[str], on_assign: Callable[..., Any], **__: Any) -> None:
        self._begin = on_assign

    def assign(self, places: Sequence[TopicPartition]) -> None:
        for place in places:
            self.seek(place)

    incremental_assign = assign

    def incremental_unassign(self, places: Sequence[TopicPartition]) -> None:
        for place in places:
            del self._next[place.partition]

    def seek(self, place: TopicPartition) -> None:
        at = place.offset
        self._next[place.partition] = 0 if at == OFFSET_BEGINNING else at

    def poll(self, wait: float) -> PlayedMessage | None:
        """The first of what `consume` finds, which then gives the others without waiting."""
        self._polled = self.consume(1_000, wait)
        return self._polled.pop(0) if self._polled else None

    def consume(self, _: int, wait: float) -> list[PlayedMessage]:
        if not wait:
            found, self._polled = self._polled, []
            return found
        if self._begin is not None:
            begin, self._begin = self._begin, None
            begin(self, [TopicPartition(self._topic, n) for n in range(len(self._logs))])
        found = []
        for number, at in self._next.items():
            part = self._logs[number][at : at + 3]
            found += [PlayedMessage(number, at + i, value) for i, value in enumerate(part)]
            self._next[number] = at + len(part)
            if self._next[number] == len(self._logs[number]):
                end = PlayedMessage(number, self._next[number], None, KafkaError._PARTITION_EOF)
                found.append(end)
        return found

    def get_watermark_offsets(self, place: TopicPartition, _: float) -> tuple[int, int]:
        return 0, len(self._logs[place.partition])

    def position(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(p.topic, p.partition, self._next[p.partition]) for p in places]

    def commit(self, **_: Any) -> None: ...

    def close(self) -> None: ...
