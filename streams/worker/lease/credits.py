"""The worker's free slots, shared out among the partitions that lease to it.

A credit is a free slot that one partition may fill. Each free slot is the credit of exactly one
partition, so the partitions together are never promised more slots than there are. The worker tells
a partition a limit: the leases read from it so far, plus its unused credits. Reading a lease that
was on its way does not change that limit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

WANTING_SECONDS = 3.0
"""How long a partition counts as waiting after it asked; while it waits it asks each second."""

ON_ITS_WAY_SECONDS = 1.0
"""How long a new credit may be unused because its partition, or its lease, is on the way."""


class Credits:
    """Not thread-safe: `HeldLeases` calls it under its lock."""

    def __init__(self, partitions: int, slots: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        # By partition, when each of its credits was given to it; the newest is used first.
        self._unused: dict[int, list[float]] = {p: [] for p in range(partitions)}
        self._received = dict.fromkeys(range(partitions), 0)
        self._told: dict[int, int | None] = dict.fromkeys(range(partitions))
        # Partitions whose limit may differ from the one they were told: most jobs change one.
        self._owed, self._was_closed = set(range(partitions)), False
        self._asked = dict.fromkeys(range(partitions), float("-inf"))
        self._queue: OrderedDict[int, None] = OrderedDict()
        self._shared = False
        self._slots = slots
        self._missing = 0  # to be withheld from those that are given next

    def share(self, first: int) -> None:
        """Spread all slots round robin, beginning with one partition; only the first call does.

        Workers begin at different partitions, so that small ones together serve all of them.
        """
        if self._shared:
            return
        self._shared = True
        for number in range(self._slots):
            self._add((first + number) % len(self._unused))

    def unused(self, partition: int) -> int:
        return len(self._unused.get(partition, ()))

    def read(self, partition: int, number: int) -> None:
        """Count a lease that was read, the `number`-th of its partition.

        Leases before it that were not read are lost: they were sent to a work partition that
        this worker no longer reads.
        """
        if partition in self._received:
            self._received[partition] = max(self._received[partition] + 1, number)
            self._owed.add(partition)

    def use(self, partition: int) -> None:
        """Use the credit of the lease's partition, or another's if that credit was moved."""
        if self.unused(partition):
            self._unused[partition].pop()
            self._owed.add(partition)
        elif not self._take_oldest(float("inf")):
            raise ValueError("no credit is unused: ask for a free slot first")
        if self._is_wanting(partition) and not self.unused(partition):
            self._shift_to(partition)

    def withhold(self, slots: int) -> None:
        """Use credits for slots beyond a lease's first; missing ones are used once they come."""
        for _ in range(slots):
            if not self._take_oldest(float("inf")):
                self._missing += 1

    def give(self, home: int) -> None:
        """Give a free slot to the partition that has waited longest, otherwise to `home`.

        It is withheld instead if a lease that fills several slots still misses it.
        """
        if self._missing:
            self._missing -= 1
            return
        waiting = (p for p in self._queue if self._is_wanting(p))
        self._add(next(waiting, home if home in self._unused else 0))

    def want(self, partition: int) -> None:
        """Move an unused credit to a partition that has ready jobs and no credits.

        Otherwise it waits for the next free slot, and keeps its place while it goes on asking.
        """
        if partition not in self._unused:
            return
        if not self._is_wanting(partition):
            self._queue.pop(partition, None)
        self._asked[partition] = self._clock()
        if any(given > self._clock() - ON_ITS_WAY_SECONDS for given in self._unused[partition]):
            return
        self._queue.setdefault(partition)
        self._shift_to(partition)

    def word(self, partition: int, closed: bool) -> tuple[int, int]:
        """The numbers to tell a partition now: its unused credits, and the leases read."""
        return 0 if closed else self.unused(partition), self._received.get(partition, 0)

    def tell(self, partition: int, closed: bool) -> tuple[int, int]:
        """The result of `word`, which the caller now sends to the partition."""
        free, received = self.word(partition, closed)
        self._told[partition] = free + received
        self._owed.add(partition)  # it may be told once more when `closed` changes
        return free, received

    def untold(self, partition: int) -> None:
        """The partition may not have heard the last word to it."""
        self._told[partition] = None
        if partition in self._unused:
            self._owed.add(partition)

    def owed(self, closed: bool) -> list[int]:
        """Partitions whose limit differs from the last one that they were told."""
        if closed != self._was_closed:
            self._owed, self._was_closed = set(self._unused), closed
        self._owed = {p for p in self._owed if sum(self.word(p, closed)) != self._told[p]}
        return sorted(self._owed)

    def _shift_to(self, partition: int) -> None:
        """Move a credit that was unused for a while, since no lease for it can be on its way."""
        own, self._unused[partition] = self._unused[partition], []
        moved = self._take_oldest(self._clock() - ON_ITS_WAY_SECONDS)
        self._unused[partition] = own
        if moved:
            self._add(partition)

    def _add(self, partition: int) -> None:
        self._unused[partition].append(self._clock())
        self._owed.add(partition)
        self._queue.pop(partition, None)

    def _take_oldest(self, given_by: float) -> bool:
        """Take a credit from the partition that has most given to it by a moment."""
        old = {p: sum(g <= given_by for g in given) for p, given in self._unused.items()}
        giver = max(old, key=lambda p: old[p])
        if old[giver]:
            self._unused[giver].pop(0)
            self._owed.add(giver)
        return bool(old[giver])

    def _is_wanting(self, partition: int) -> bool:
        return self._clock() - self._asked.get(partition, float("-inf")) < WANTING_SECONDS
