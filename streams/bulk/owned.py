"""The bulk acts that a process carries: what is known of them, and the attempts at them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from prometheus_client import Gauge

from streams.bulk.act import Act
from streams.bulk.working import Working
from streams.serde.bulk_records import ENDED, BulkItem, BulkProgress, BulkRecord
from streams.serde.codec import BULK

_AT_WORK = Gauge("tidegate_operator_bulk_acts_running", "Bulk acts at work in this process.")
_STUCK = Gauge(
    "tidegate_operator_bulk_acts_stuck", "Bulk acts that could not move at their last try."
)
_RETRY_SECONDS = 5.0

Begin = Callable[[Act, Sequence[BulkItem], bool], Working]
"""Makes an attempt at an act, given its items and whether it is stuck."""


class OwnedActs:
    """The acts of the partitions that a process owns; one thread alone uses it.

    `author` is this process in the records; `start` runs an attempt elsewhere.
    """

    def __init__(
        self,
        author: str,
        begin: Begin,
        start: Callable[[Working], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._author = author
        self._begin, self._start, self._clock = begin, start, clock
        self._acts: dict[int, dict[str, Act]] = {}
        self._items: dict[str, dict[tuple[bytes, str], BulkItem]] = {}
        self._whole: set[int] = set()
        self._at_work: dict[str, Working] = {}
        self._retry_at: dict[str, float] = {}

    @property
    def partitions(self) -> list[int]:
        return list(self._acts)

    def fold(self, partition: int, record: BulkRecord) -> None:
        """Learn what a record says; its `at` is the time at which a broker took it.

        The progress that this process wrote since it carries the partition is known already.
        """
        known, bulk_id = self._acts.setdefault(partition, {}), record.bulk_id
        if isinstance(record.body, BulkItem):
            self._keep(known.get(bulk_id), bulk_id, record.body)
            return
        ours = isinstance(record.body, BulkProgress) and record.by == self._author
        if ours and partition in self._whole:
            return
        before = known.get(bulk_id, Act(bulk_id))
        act = known[bulk_id] = before.folded(record)
        at_work = self._at_work.get(bulk_id)
        if at_work is not None:
            if isinstance(record.body, BulkProgress):  # that of an earlier owner, over ours
                act = known[bulk_id] = replace(act, overwritten=True)
            at_work.act = act
        if act.ended and not before.ended:
            self._forget_items(act)

    def take(self, partition: int, value: bytes, at: int) -> None:
        """Learn what a record says; `at` is the time at which a broker took it.

        Raises:
            DecodeError: it cannot be read.
        """
        self.fold(partition, replace(BULK.decode(value), at=at))

    def read_to_end(self, partition: int) -> None:
        """Begin to carry: everything that was written about this partition's acts is known."""
        self._acts.setdefault(partition, {})
        self._whole.add(partition)

    def carry(self) -> None:
        """Begin an attempt at each act that is not in its ordered state, unless one runs."""
        for number in self._whole:
            known = self._acts[number]
            for bulk_id in known:
                if at_work := self._at_work.get(bulk_id):
                    known[bulk_id] = self._learnt(known[bulk_id], at_work)
                elif not known[bulk_id].unobeyed:
                    self._retry_at.pop(bulk_id, None)
                elif self._clock() >= self._retry_at.get(bulk_id, 0.0):
                    self._attempt(known[bulk_id])
                    known[bulk_id] = replace(known[bulk_id], overwritten=False)
        _AT_WORK.set(len(self._at_work))
        _STUCK.set(len(self._retry_at))

    def release(self, partitions: Iterable[int], *, lost: bool = False) -> list[Working]:
        """Stop carrying; return the attempts that still have to save how far they are."""
        released = list[Working]()
        for number in tuple(partitions):
            self._whole.discard(number)
            for bulk_id in self._acts.pop(number, {}):
                self._items.pop(bulk_id, None)
                self._retry_at.pop(bulk_id, None)
                if at_work := self._at_work.pop(bulk_id, None):
                    at_work.lost, at_work.released = lost, True
                    released.append(at_work)
        return released

    def _keep(self, act: Act | None, bulk_id: str, item: BulkItem) -> None:
        """Keep an item of a plan that has not ended; that of a new plan comes before its act."""
        asked = None if act is None or not act.ended else act.asked
        if asked is None or asked.items_digest != item.digest:
            self._items.setdefault(bulk_id, {})[item.digest, item.item] = item

    def _forget_items(self, act: Act) -> None:
        """Forget the items of an act that has ended; those of a plan that comes yet are kept."""
        plan = None if act.asked is None else act.asked.items_digest
        items = self._items.pop(act.bulk_id, {})
        if kept := {key: item for key, item in items.items() if item.digest != plan}:
            self._items[act.bulk_id] = kept

    def _attempt(self, act: Act) -> None:
        items = tuple(self._items.get(act.bulk_id, {}).values())
        begun = self._begin(act, items, act.bulk_id in self._retry_at)
        self._at_work[act.bulk_id] = begun
        self._start(begun)

    def _learnt(self, act: Act, at_work: Working) -> Act:
        """The act after what an attempt has achieved at its end."""
        bulk_id = act.bulk_id
        if not at_work.over.is_set():
            return act
        del self._at_work[bulk_id]
        self._retry_at.pop(bulk_id, None)
        if at_work.stuck:
            self._retry_at[bulk_id] = self._clock() + _RETRY_SECONDS
        if act.asked is not None and act.asked.items_digest != at_work.plan and not act.clash:
            return act
        found, ours = act.progress, at_work.progress
        if found is None or found.stops <= ours.stops or ours.status in ENDED:
            found = ours
        act = replace(act, progress=found, overwritten=act.overwritten or at_work.stuck)
        if act.ended:
            self._forget_items(act)
        else:
            mine = {(each.digest, each.item): each for each in at_work.items.values()}
            self._items.setdefault(bulk_id, {}).update(mine)
        return act
