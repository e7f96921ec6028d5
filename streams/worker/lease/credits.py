"""The worker's free slots, shared out among the sources that lease to it.

A source is a connection to an owner of partitions. A credit is a free slot that one source may
fill. Each free slot is the credit of one source at most, so the sources together are never promised
more slots than there are. A free slot is spare while there is no source, and while it is kept for a
source that is dialed and has not answered yet.

The worker tells a source a limit: the leases read from it so far, plus its unused credits. Reading
a lease that was on its way does not change that limit.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

WANTING_SECONDS = 3.0
"""How long a source counts as waiting after it asked; while it waits it asks each second."""

ON_ITS_WAY_SECONDS = 1.0
"""How long a new credit may be unused because its source, or its lease, is on the way."""

TOGETHER_SECONDS = 0.5
"""How long slots are kept for the other dialed sources after the first one is open. A source that
opens later gets its share once others have not used it for `ON_ITS_WAY_SECONDS`."""

Source = Any
"""A connection, as far as credits are concerned."""


class Credits:
    """Not thread-safe: `HeldLeases` calls it under its lock."""

    def __init__(self, slots: int, clock: Callable[[], float]) -> None:
        self.dialed = 1
        """How many sources there may soon be."""
        self._clock = clock
        # By source, when each of its credits was given to it; the newest is used first.
        self._unused: dict[Source, list[float]] = {}
        self._received: dict[Source, int] = {}
        self._told: dict[Source, int | None] = {}
        # Sources whose limit may differ from the one they were told: most jobs change one.
        self._owed: set[Source] = set()
        self._was_closed = False
        self._asked: dict[Source, float] = {}
        self._queue: OrderedDict[Source, None] = OrderedDict()
        self._new: set[Source] = set()
        self._spare = slots
        self._kept_until = 0.0  # the spare slots, if there is a source
        self._missing = 0  # to be withheld from those that are given next

    def open(self, source: Source) -> None:
        """A source is there: it gets its share of what is spare, or what it lacks as slots free."""
        if not self._unused:
            self._kept_until = self._clock() + TOGETHER_SECONDS
        self._begin(source)
        awaited = max(0, self.dialed - len(self._unused))
        for _ in range(math.ceil(self._spare / (awaited + 1))):
            self._spare -= 1
            self._add(source)
        self._new.add(source)
        self.level()

    def level(self) -> None:
        """Give sources what was kept long enough, or what others have not used for a while."""
        if self._unused and self._clock() >= self._kept_until:
            spare, self._spare = self._spare, 0
            for _ in range(spare):
                self.give(None)
        for source in list(self._new):
            share = sum(map(len, self._unused.values())) // len(self._unused)
            while self.unused(source) < share and self._shift_to(source, leaves=share):
                pass
            if self.unused(source) >= share:
                self._new.discard(source)
        for source in self._waiting():
            self._shift_to(source)

    def close(self, source: Source) -> None:
        """A source is gone: the others get its credits."""
        freed = self._unused.pop(source, [])
        for kept in (self._received, self._told, self._asked, self._queue):
            kept.pop(source, None)
        self._owed.discard(source)
        self._new.discard(source)
        for _ in freed:
            self.give(source)

    def unused(self, source: Source) -> int:
        return len(self._unused.get(source, ()))

    def read(self, source: Source) -> None:
        """Count a lease that was read."""
        if source in self._received:
            self._received[source] += 1
            self._owed.add(source)

    def use(self, source: Source) -> None:
        """Use the credit of the lease's source, or another's if that credit was moved."""
        if self.unused(source):
            self._unused[source].pop()
            self._owed.add(source)
        elif not self._take_any():
            raise ValueError("no credit is unused: ask for a free slot first")
        if self._is_wanting(source) and not self.unused(source):
            self._shift_to(source)

    def withhold(self, slots: int) -> None:
        """Use credits for slots beyond a lease's first; missing ones are used once they come."""
        for _ in range(slots):
            if not self._take_any():
                self._missing += 1

    def give(self, home: Source) -> None:
        """Give a free slot to the source that has waited longest, otherwise to `home`.

        If that is gone, the one with the fewest gets it. It is withheld instead if a lease that
        fills several slots still misses it.
        """
        if self._missing:
            self._missing -= 1
        elif not self._unused:
            self._spare += 1
        else:
            home = home if home in self._unused else min(self._unused, key=self.unused)
            self._add(next(iter(self._waiting()), home))

    def want(self, source: Source) -> None:
        """Move an unused credit to a source that has ready jobs and no credits.

        Otherwise it waits for the next one, and keeps its place while it goes on asking.
        """
        if source not in self._unused:
            return
        if not self._is_wanting(source):
            self._queue.pop(source, None)
        self._asked[source] = self._clock()
        if any(given > self._clock() - ON_ITS_WAY_SECONDS for given in self._unused[source]):
            return
        self._queue.setdefault(source)
        self._shift_to(source)

    def word(self, source: Source, closed: bool) -> tuple[int, int]:
        """The numbers to tell a source now: its unused credits, and the leases read."""
        return 0 if closed else self.unused(source), self._received.get(source, 0)

    def tell(self, source: Source, closed: bool) -> tuple[int, int]:
        """The result of `word`, which the caller now sends to the source."""
        free, received = self.word(source, closed)
        self._told[source] = free + received
        self._owed.add(source)  # it may be told once more when `closed` changes
        return free, received

    def owed(self, closed: bool) -> list[Source]:
        """Sources whose limit differs from the last one that they were told."""
        if closed != self._was_closed:
            self._owed, self._was_closed = set(self._unused), closed
        self._owed = {s for s in self._owed if sum(self.word(s, closed)) != self._told[s]}
        return [s for s in self._unused if s in self._owed]

    def _shift_to(self, source: Source, leaves: int = 0) -> bool:
        """Move a credit that was unused for a while, since no lease for it can be on its way.

        Take none of a source that has `leaves` or fewer.
        """
        own, self._unused[source] = self._unused[source], []
        moved = self._take_oldest(self._clock() - ON_ITS_WAY_SECONDS, leaves)
        self._unused[source] = own
        if moved:
            self._add(source)
        return moved

    def _begin(self, source: Source) -> None:
        self._unused[source], self._received[source] = [], 0
        self._told[source], self._asked[source] = None, -math.inf
        self._owed.add(source)

    def _add(self, source: Source) -> None:
        self._unused[source].append(self._clock())
        self._owed.add(source)
        self._queue.pop(source, None)

    def _take_any(self) -> bool:
        """Take a spare slot, or any unused credit."""
        if self._spare:
            self._spare -= 1
            return True
        return self._take_oldest(math.inf)

    def _take_oldest(self, given_by: float, leaves: int = 0) -> bool:
        """Take a credit from the source that has most given to it by a moment."""
        rich = {s: given for s, given in self._unused.items() if len(given) > leaves}
        old = {s: sum(g <= given_by for g in given) for s, given in rich.items()}
        giver = max(old, key=lambda s: old[s], default=None)
        if giver is None or not old[giver]:
            return False
        self._unused[giver].pop(0)
        self._owed.add(giver)
        return True

    def _waiting(self) -> list[Source]:
        """Sources that wait for a credit, in the order of their asking."""
        return [source for source in self._queue if self._is_wanting(source)]

    def _is_wanting(self, source: Source) -> bool:
        return self._clock() - self._asked.get(source, -math.inf) < WANTING_SECONDS
