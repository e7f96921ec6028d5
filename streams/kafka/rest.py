"""Lets a reader rest after records came: it asks the broker a few times a second, not for each one.

While it rests, its partitions are paused. The broker's answer to a question that is under way is
then dropped, and asked for again afterwards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition

_FLOOD = 500
"""With so many records at once, no rest would save a question."""


class Rest:
    """Belongs to one consumer; it rests for `seconds`, unless somebody is in a `hurry`."""

    def __init__(self, consumer: Consumer, seconds: float, hurry: threading.Event | None) -> None:
        self._consumer = consumer
        self._seconds = seconds
        self._hurry = hurry or threading.Event()
        self._until = 0.0
        self._paused: list[TopicPartition] = []

    def after(self, count: int, partitions: Iterable[TopicPartition]) -> None:
        """Begin to rest after so many records of these partitions."""
        if self._seconds and count < _FLOOD and not self._hurry.is_set():
            self._paused = list(partitions)
            self._consumer.pause(self._paused)
            self._until = time.monotonic() + self._seconds

    def over(self, seconds: float) -> bool:
        """Whether the rest is over, or ends within this time."""
        left = self._until - time.monotonic()
        if left > 0 and not self._hurry.wait(min(left, seconds)) and left > seconds:
            return False
        if self._paused:
            self._consumer.resume(self._paused)
            self._paused = []
        return True
