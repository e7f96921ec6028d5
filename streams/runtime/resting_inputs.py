"""The inputs of a stage that rest for a second: nothing of them is read meanwhile.

One rests after each transaction that wrote to it and took what it wrote (`own_records`): the broker
would answer a Fetch only to give the process its own records.

One is held back while records that it would cause must not be read yet (`own_order`).

Another rests before a damaged batch. After such a batch librdkafka skips it, or asks for the
beginning of its partition and goes on there. It asks for as long as it takes, through an outage and
a rebalance too. So a place rests and is read again from its position, and must not jump back until
a minute after it has given a record. After that minute, a log that was cut off is read as it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable

from streams.kafka.offsets import Place

_REST_SECONDS = 1.0
_DOUBT_SECONDS = 60.0


class RestingInputs:
    """Belongs to one consumer; it contains the places that rest."""

    def __init__(self) -> None:
        self._held_back: frozenset[Place] = frozenset()
        self._passed: set[Place] = set()  # those of them that are not damaged
        self._rests: dict[Place, float] = {}  # until when
        self._doubts: dict[Place, tuple[float, int]] = {}  # until when, and the next offset

    def __contains__(self, place: object) -> bool:
        return place in self._rests

    def any_doubt(self) -> bool:
        """Whether some place may jump back."""
        if self._doubts:
            now = time.monotonic()
            kept = {place: doubt for place, doubt in self._doubts.items() if doubt[0] > now}
            self._doubts = kept
        return bool(self._doubts)

    def found(self, place: Place, position: int) -> None:
        """Let a place rest before a damaged batch; `position` is not behind the batch."""
        self._rest(place)
        self._doubts[place] = math.inf, position

    def jumps_back(self, place: Place, offset: int) -> bool:
        """Whether a record was read before, so that its place rests again."""
        if place not in self._doubts:
            return False
        until, expected = self._doubts[place]
        until = min(until, time.monotonic() + _DOUBT_SECONDS)
        self._doubts[place] = until, max(expected, offset + 1)
        if offset < expected:
            self._rest(place)
        return offset < expected

    def pass_by(self, place: Place) -> None:
        """Let a place rest whose next records are not needed."""
        self._passed.add(place)
        self._rest(place)

    def wake(self, place: Place) -> None:
        """Let a place that was passed by rest no longer."""
        if place in self._passed:
            self._rests[place] = -math.inf

    def hold_back(self, places: Collection[Place], new: Iterable[Place]) -> None:
        """Let places rest until this is called without them; only the new ones are still read."""
        self._held_back = frozenset(places)
        self._passed.update(new)
        self._rests |= dict.fromkeys(new, -math.inf)

    def rested(self) -> list[Place]:
        """The places that have rested, each to be started from its position."""
        now = time.monotonic()
        return [p for p, until in self._rests.items() if until <= now and p not in self._held_back]

    def started(self, positions: Iterable[tuple[Place, int]]) -> None:
        """Note from which offsets places are read now."""
        for place, offset in positions:
            self._rests.pop(place, None)
            self._passed.discard(place)
            if place in self._doubts:
                self._doubts[place] = self._doubts[place][0], offset

    def taken(self, partitions: Collection[int]) -> None:
        """Note that partitions are another process's; the doubt stays with the consumer."""
        self._rests = {place: t for place, t in self._rests.items() if place[1] not in partitions}
        self._passed &= self._rests.keys()

    def _rest(self, place: Place) -> None:
        self._rests[place] = time.monotonic() + _REST_SECONDS
