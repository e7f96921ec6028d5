"""How far the inputs reach, read from the broker without waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from confluent_kafka.admin import AdminClient

from streams.kafka.failures import Outage
from streams.kafka.offsets import EndOffsetsPoll, Ends, Place
from streams.process.boot_clock import boot_seconds


class EndOffsets:
    """End offsets of the assigned `inputs`; `position` is how far this process has read.

    A process without inputs asks for the end of `idle`, only to hear whether the broker answers.
    """

    def __init__(
        self,
        admin: AdminClient,
        prefix: str,
        position: Callable[[str, int], int],
        outage: Outage,
        idle: Place,
    ) -> None:
        self._new_question = partial(EndOffsetsPoll, admin, prefix, outage)
        self._question = self._new_question()
        self.position = position
        self._outage = outage
        self._idle = idle
        self.inputs: list[Place] = []
        self._answered: Ends | None = None

    def assign(self, inputs: Sequence[Place]) -> None:
        """Ask for these (logical topic, partition) from now on."""
        self.inputs = list(inputs)
        self._question, self._answered = self._new_question(), None

    def caught_up_to(self, topic: str, partition: int, moment: float) -> bool:
        """Whether everything there at `moment` of the boot clock has been processed."""
        self._collect()
        answered = self._answered
        is_late = answered is None or answered.asked_at < moment
        end = None if answered is None or is_late else answered.offsets.get((topic, partition))
        if end is None:
            self.ask()
            return False
        return self.position(topic, partition) >= end

    def ask(self) -> None:
        """Ask again unless a question is open."""
        self._collect()
        self._question.ask(self.inputs or [self._idle], boot_seconds())

    def newest(self) -> Ends | None:
        """The newest answer of the broker; None if there is none since the assignment."""
        self._collect()
        return self._answered

    def _collect(self) -> None:
        answered = self._question.answer()
        if answered is not None:
            if answered.complete:
                self._outage.answered(answered.asked_at)
            self._answered = answered if self.inputs else None
