"""A broker and a machine whose clocks a test moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    Producer,
)

from streams.runtime.broker_clock import BrokerClock
from streams.runtime.broker_clock_file import ClockMemory

BROKER_MS = 1_750_000_000_000


HOUR = 3_600_000


NOWHERE = Path("/nowhere/clock")


class Broker:
    """A broker and a machine, whose clocks a test moves; `boot` counts seconds, the rest is in ms.

    A record is appended after `there`, and acknowledged `back` later.
    """

    def __init__(self) -> None:
        self.boot_ms = 5_000.0
        self.ahead_ms = BROKER_MS - self.boot_ms
        self.there, self.back = 1.0, 1.0
        self.kind = TIMESTAMP_LOG_APPEND_TIME
        self.refusal: KafkaError | None = None
        self.produced: list[str] = []
        self._delivered: Callable[[Any, Any], None] | None = None

    @property
    def now(self) -> float:
        return self.boot_ms + self.ahead_ms

    def boot(self) -> float:
        return self.boot_ms / 1000

    def clock(self, topic: str = "clock", memory: Path = NOWHERE) -> BrokerClock:
        """A clock of this machine that asks this broker."""
        remembering = ClockMemory(memory, boot_id=memory.parent.parent / "boot_id")
        return BrokerClock(cast(Producer, self), topic, "counting", remembering, self.boot)

    def produce(self, topic: str, value: bytes, key: str, partition: int, on_delivery: Any) -> None:
        if self.refusal is not None and self.refusal.code() == KafkaError._QUEUE_FULL:
            raise KafkaException(self.refusal)
        self.produced.append(topic)
        self._delivered = on_delivery

    def poll(self, timeout: float) -> None:
        assert self._delivered is not None
        self.boot_ms += self.there
        at = int(self.now)
        self.boot_ms += self.back
        self._delivered(self.refusal, SimpleNamespace(timestamp=lambda: (self.kind, at)))

    def passes(self, ms: float) -> None:
        self.boot_ms += ms
