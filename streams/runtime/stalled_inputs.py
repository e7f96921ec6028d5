"""Inputs that stand still behind an open transaction.

A read_committed consumer stops at the last stable offset: the first record of the oldest
transaction that is still open. A transaction that its producer never ends, or that the broker lost
track of (KAFKA-20734), holds up every reader without an error at any of them. This module detects
it by three signs: the stable offset has not moved, this process has read up to it, and the input
has records after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import AdminClient

from streams.kafka.offsets import Place, latest, offset_in, request_offsets
from streams.runtime import metrics

log = structlog.get_logger(__name__)

_PATIENCE_SECONDS = 5.0
_TELL_SECONDS = 30.0
"""A killed stage's transaction lasts 10 s, and brokers check for those every 10 s by default."""


@dataclass(frozen=True)
class _Question:
    asked_at: float
    stable: dict[Place, Future[Any]]
    ends: dict[Place, Future[Any]]

    @property
    def answered(self) -> bool:
        return all(f.done() for f in (*self.stable.values(), *self.ends.values()))


@dataclass(frozen=True)
class _Block:
    """An input that stands at an offset, first seen at `since` and last at `seen_at`."""

    offset: int
    since: float
    seen_at: float

    @property
    def seconds(self) -> float:
        return self.seen_at - self.since


class BlockedInputs:
    """Watches the inputs of one stage's process; `position` is how far it has read.

    `tidegate_stage_blocked_seconds` is set at each look. One log line reports an input that has
    been blocked for 30 s.
    """

    def __init__(
        self,
        stage: str,
        admin: AdminClient,
        prefix: str,
        position: Callable[[str, int], int],
    ) -> None:
        self._gauge = metrics.BLOCKED_SECONDS.labels(stage)
        self._admin = admin
        self._prefix = prefix
        self._position = position
        self._blocks: dict[Place, _Block] = {}
        self._told: set[Place] = set()
        self._pending: _Question | None = None

    def look(self, inputs: Collection[Place]) -> None:
        """Judge the answers since the last look, and ask again; never waits."""
        if self._pending is not None and not self._pending.answered:
            return
        if self._pending is not None:
            self._judge(self._pending, inputs)
        self._pending = self._ask(inputs)

    def _ask(self, inputs: Collection[Place]) -> _Question:
        asked_at = time.monotonic()
        stable, ends = (
            request_offsets(
                self._admin, self._prefix, inputs, latest(), _PATIENCE_SECONDS, isolation
            )
            for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        return _Question(asked_at, stable, ends)

    def _judge(self, answered: _Question, inputs: Collection[Place]) -> None:
        blocks = {place: self._block(place, answered) for place in inputs if place in answered.ends}
        found = {place: block for place, block in blocks.items() if block is not None}
        self._told &= set(inputs)
        self._say_released(found)
        self._blocks = found
        self._gauge.set(max((block.seconds for block in found.values()), default=0.0))
        for place, block in found.items():
            if block.seconds >= _TELL_SECONDS and place not in self._told:
                self._told.add(place)
                self._tell(place, block)

    def _block(self, place: Place, answered: _Question) -> _Block | None:
        """How an input is blocked, if it is; as it was known before if nobody answered for it."""
        known = self._blocks.get(place)
        try:
            stable, end = offset_in(answered.stable[place]), offset_in(answered.ends[place])
        except KafkaException:  # `EndOffsets` asks as well, and logs it if no broker answers
            return known
        if stable >= end or self._position(*place) < stable:
            return None
        since = known.since if known and known.offset == stable else answered.asked_at
        return _Block(stable, since, answered.asked_at)

    def _say_released(self, found: dict[Place, _Block]) -> None:
        for place in sorted(self._told):
            block = found.get(place)
            if block is None or block.offset != self._blocks[place].offset:
                self._told.discard(place)
                log.info("input goes on", topic=self._prefix + place[0], partition=place[1])

    def _tell(self, place: Place, block: _Block) -> None:
        since = datetime.now(UTC) - timedelta(seconds=block.seconds)
        log.warning(
            "input is blocked by an open transaction: end its producer, or abort it "
            "(`kafka-transactions.sh`)",
            topic=self._prefix + place[0],
            partition=place[1],
            offset=block.offset,
            since=since.isoformat(timespec="seconds"),
        )
