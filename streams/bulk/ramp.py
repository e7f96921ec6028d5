"""How many items a bulk act deals with before it looks back, and when failures stop it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streams.serde.bulk_records import ASKED, FAILED, ITEM_DONE, BulkItem, BulkProgress


@dataclass(frozen=True, slots=True)
class Tally:
    """The items that are dealt with, by outcome."""

    done: int = 0
    asked: int = 0
    failed: int = 0

    @property
    def dealt_with(self) -> int:
        return self.done + self.asked + self.failed

    @property
    def answered(self) -> int:
        """Those of which something was seen; steps grow by them alone."""
        return self.done + self.failed

    def plus(self, items: Iterable[BulkItem]) -> Tally:
        """Return this tally with more items; those that wait are not counted."""
        found = Counter(item.outcome for item in items)
        return Tally(
            self.done + found[ITEM_DONE], self.asked + found[ASKED], self.failed + found[FAILED]
        )


def room(ramp: Sequence[int], answered: int) -> int | None:
    """Return how many items the present step still takes; None if it takes all that are left.

    With a ramp of 1, 10, 100 the first step is the first item, the second the next ten. An item
    whose effect nobody has seen is in no step: it shows nothing about those after it.
    """
    end = 0
    for size in ramp:
        end += size
        if answered < end:
            return end - answered
    return None


def step(ramp: Sequence[int], answered: int) -> int:
    """Return the number of the present step, from 1."""
    ends = [sum(ramp[: n + 1]) for n in range(len(ramp))]
    return 1 + sum(end <= answered for end in ends)


def too_many(found: Tally, progress: BulkProgress, limit: float | None) -> str | None:
    """Return why an act stops, or None if it may go on.

    A limit below 1 is a share of the items dealt with, another one a number of failures. Items from
    before a person let a stopped act go on do not count.
    """
    failed = found.failed - progress.forgiven_failures
    dealt_with = found.dealt_with - progress.forgiven_items
    if limit is None or failed <= 0:
        return None
    if limit >= 1:
        return f"{failed} items failed, and {limit:g} stop it" if failed >= limit else None
    share = failed / dealt_with
    return (
        f"{failed} of {dealt_with} items failed, more than {limit:.0%}" if share > limit else None
    )
