"""The records that a stage's consumer has read and its loop has not yet taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from confluent_kafka import Message

from streams.kafka.offsets import Place
from streams.kafka.record_headers import headers_of
from streams.runtime.dead_keys import NO_OFFSET
from streams.runtime.link import LINK
from streams.runtime.processor import WAIT_SECONDS, Record

_MOST_WAITING = 100
"""With more records than these a transaction is worth it."""


class HeldRecords:
    """Records in the order in which they were read; `names` gives each topic's logical name."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._records: list[Record] = []
        self._heads: dict[Place, int] | None = None
        self._patient = 0  # how many of them, from the first on, are known to be in no hurry
        self._until = 0.0  # when these have waited long enough

    def __len__(self) -> int:
        return len(self._records)

    def add(self, messages: Iterable[Message]) -> None:
        """Hold the records of these messages, which are no errors."""
        self._heads = None
        # The named tuple's own constructor would cost twice as much.
        names, new = self._names, tuple.__new__
        self._records += [
            new(
                Record,
                (
                    names[m.topic()],  # type: ignore[index]
                    m.partition(),
                    m.offset(),
                    m.timestamp()[1],
                    m.key(),
                    m.value(),
                    headers_of(m),
                ),
            )
            for m in messages
        ]

    def add_commands(self, commands: Sequence[Record]) -> None:
        """Hold commands of a link behind the records that were read."""
        self._records += commands

    def drop_commands(self, kept: Collection[int] = ()) -> None:
        """Forget the commands of a link, but for those of these partitions."""
        held = self._records
        self._records = [r for r in held if r.topic != LINK or r.partition in kept]
        self._heads, self._patient = None, 0

    def put_off(self, may_wait: Callable[[Sequence[Record]], bool]) -> bool:
        """Whether they go on waiting for others: all may, and have not waited for long."""
        new = self._records[self._patient :]
        if not 0 < len(self._records) <= _MOST_WAITING or not may_wait(new):
            return False
        self._patient = len(self._records)
        if not self._until:
            self._until = time.monotonic() + WAIT_SECONDS
        return self.wait() > 0

    def wait(self) -> float:
        """Seconds for which they still wait for others."""
        return max(0.0, self._until - time.monotonic())

    def take(self) -> list[Record]:
        """Give all of them away."""
        taken, self._records, self._heads = self._records, [], None
        self._patient, self._until = 0, 0.0
        return taken

    def drop(self, ends: Mapping[Place, float]) -> None:
        """Forget the records of these places before these offsets."""
        if self._records:
            held = self._records
            self._records = [r for r in held if r[2] >= ends.get((r[0], r[1]), NO_OFFSET)]
            self._heads, self._patient = None, 0

    def first(self, place: Place) -> int | None:
        """The offset of the first record of a place, if one is held."""
        if self._heads is None:
            self._heads = {(r.topic, r.partition): r.offset for r in reversed(self._records)}
        return self._heads.get(place)
