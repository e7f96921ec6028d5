"""How far the inputs reach, asked without waiting.

The ends are those of READ_UNCOMMITTED: a read_committed watermark is the last stable offset,
which hides what an open transaction has already written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streams.runtime.failures import Outage

_PATIENCE_SECONDS = 15.0


@dataclass(frozen=True)
class _Question:
    asked_at: float
    answers: dict[tuple[str, int], Future[Any]]


class EndOffsets:
    """End offsets of the assigned inputs; `position` is how far this process has read."""

    def __init__(
        self,
        admin: AdminClient,
        prefix: str,
        position: Callable[[str, int], int],
        outage: Outage,
    ) -> None:
        self._admin = admin
        self._prefix = prefix
        self._position = position
        self._outage = outage
        self._inputs: list[tuple[str, int]] = []
        self._answered: _Question | None = None
        self._pending: _Question | None = None

    def assign(self, inputs: Sequence[tuple[str, int]]) -> None:
        """Ask for these (logical topic, partition) from now on."""
        self._inputs = list(inputs)
        self._answered = self._pending = None

    def read_through(self, topic: str, partition: int, moment: float) -> bool:
        """Whether all that stood there at monotonic `moment` has been read and processed."""
        self._collect()
        answered = self._answered
        if answered is None or answered.asked_at < moment:
            self.ask()
            return False
        end = answered.answers[topic, partition].result().offset
        return bool(self._position(topic, partition) >= end)

    def ask(self) -> None:
        """Ask anew unless a question is open."""
        self._collect()
        if self._pending is not None or not self._inputs:
            return
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(self._prefix + t, p): latest for t, p in self._inputs}
        asked_at = time.monotonic()
        futures = self._admin.list_offsets(
            wanted,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=_PATIENCE_SECONDS,
        )
        named = {
            (tp.topic.removeprefix(self._prefix), tp.partition): future
            for tp, future in futures.items()
        }
        self._pending = _Question(asked_at, named)

    def lag(self) -> int | None:
        """Records (and markers) that the inputs hold behind the positions; None: not known."""
        self._collect()
        if self._answered is None:
            return None
        ends = self._answered.answers.items()
        return sum(max(0, int(f.result().offset) - self._position(*place)) for place, f in ends)

    def _collect(self) -> None:
        pending = self._pending
        if pending is None or not all(f.done() for f in pending.answers.values()):
            return
        self._pending = None
        try:
            for future in pending.answers.values():
                future.result()
        except KafkaException as error:
            self._outage.failed(error)
            return
        self._outage.answered()
        self._answered = pending
