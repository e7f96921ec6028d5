"""Whether a part of a fused stage has read all older records of a topic that another part writes.

A record that is handed over is handled at once. Older records of its topic may still be unread: the
stages ran apart before, or a record was not handed over (it is poison, or an output was refused).
What is handed over would then overtake them, and an event would end a wait for the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from streams.runtime.clock import Clock
from streams.runtime.stage import FusedStage
from streams.runtime.task import Task


class OwnOrder:
    """It contains the topics of which nothing may be handed over now.

    At the start these are the topics that the stage alone writes. Of a topic with other writers
    only what this process left counts: the order between the writers is nobody's promise.
    """

    def __init__(self, stage: FusedStage, parts: Sequence[Task], clock: Clock) -> None:
        self._clock = clock
        self._readers = {topic: part for part in parts for topic in part.stage.inputs}
        self._first = _first_inputs(stage)
        self._behind = dict.fromkeys(self._first, clock.monotonic())  # unread up to this moment
        self._left: set[str] = set()  # in this transaction

    def __contains__(self, topic: object) -> bool:
        return topic in self._behind or topic in self._left

    @property
    def held_back(self) -> AbstractSet[str]:
        """The inputs to read no further meanwhile.

        They are those of the first parts only. The parts behind them may send each other records in
        circles, so that a part whose inputs are held back might never catch up.
        """
        return frozenset(t for topic in self._behind for t in self._first.get(topic, ()))

    def left(self, topics: Iterable[str]) -> None:
        """Note that records of these topics are written which nobody took."""
        self._left.update(topics)

    def look(self) -> None:
        """See which parts have caught up; everything that was read must have been processed."""
        for topic, moment in list(self._behind.items()):
            if self._readers[topic].ctx.caught_up_to(topic, moment):
                del self._behind[topic]

    def committed(self) -> None:
        """What the transaction left is in its topics, to be read."""
        self._behind |= dict.fromkeys(self._left, self._clock.monotonic())
        self._left.clear()

    def rollback(self) -> None:
        """Forget what the transaction left."""
        self._left.clear()


def _first_inputs(stage: FusedStage) -> dict[str, tuple[str, ...]]:
    """By own topic, the inputs of the part that writes it, if no part writes to those."""
    written = set(stage.writes)
    return {
        topic: tuple(
            each
            for part in stage.parts
            if topic in part.writes and not written & set(part.inputs)
            for each in part.inputs
        )
        for topic in stage.own_inputs
    }
