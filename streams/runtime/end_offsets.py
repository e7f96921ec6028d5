"""How far the inputs reach, read from the broker without waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streams.kafka.failures import Outage
from streams.kafka.offsets import Place, latest, offset_in, request_offsets
from streams.process.boot_clock import boot_seconds

_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class _Question:
    asked_at: float
    answers: dict[Place, Future[Any]]
    ends: dict[Place, int] = field(default_factory=dict)


class EndOffsets:
    """End offsets of the assigned `inputs`; `position` is how far this process has read."""

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
        self.inputs: list[Place] = []
        self._answered: _Question | None = None
        self._pending: _Question | None = None

    def assign(self, inputs: Sequence[Place]) -> None:
        """Ask for these (logical topic, partition) from now on."""
        self.inputs = list(inputs)
        self._answered = self._pending = None

    def caught_up_to(self, topic: str, partition: int, moment: float) -> bool:
        """Whether everything there at `moment` of the boot clock has been processed."""
        self._collect()
        answered = self._answered
        if answered is None or answered.asked_at < moment:
            self.ask()
            return False
        return self._position(topic, partition) >= answered.ends[topic, partition]

    def ask(self) -> None:
        """Ask again unless a question is open."""
        self._collect()
        if self._pending is not None or not self.inputs:
            return
        asked_at = boot_seconds()
        answers = request_offsets(
            self._admin, self._prefix, self.inputs, latest(), _PATIENCE_SECONDS
        )
        self._pending = _Question(asked_at, answers)

    def lag(self) -> int | None:
        """Records (and markers) in the inputs behind the positions; None if not known."""
        self._collect()
        if self._answered is None:
            return None
        ends = self._answered.ends.items()
        return sum(max(0, end - self._position(*place)) for place, end in ends)

    def _collect(self) -> None:
        pending = self._pending
        if pending is None or not all(f.done() for f in pending.answers.values()):
            return
        self._pending = None
        try:
            for place, answer in pending.answers.items():
                pending.ends[place] = offset_in(answer)
        except KafkaException as error:
            self._outage.failed(error)
            return
        self._outage.answered(pending.asked_at)
        self._answered = pending
