"""One bulk act as the records of the topic `bulk` describe it.

Each kind of record has a key of its own, so that none replaces another: the API writes the items,
then what is asked, pauses and the cancelling; the carrier writes results of items and the progress.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from streams.serde.bulk_records import (
    CANCELLED,
    ENDED,
    PAUSED,
    RUNNING,
    STOPPED,
    BulkAsked,
    BulkBody,
    BulkCancelled,
    BulkItem,
    BulkJoined,
    BulkPaused,
    BulkProgress,
    BulkRecord,
    BulkStatus,
)

TOPIC = "bulk"
KINDS: dict[type[BulkBody], str] = {
    BulkAsked: "asked",
    BulkItem: "item",
    BulkPaused: "paused",
    BulkCancelled: "cancelled",
    BulkJoined: "joined",
    BulkProgress: "progress",
}


_PLAN_CHARS = 16


def plan_of(digest: bytes) -> str:
    """Return what the names of a plan's items begin with."""
    return f"{digest.hex()[:_PLAN_CHARS]}:"


def name_of(item: BulkItem) -> str:
    """Return the name of an item in its act: no plan replaces what is known of another one's."""
    return plan_of(item.digest) + item.item


@dataclass(frozen=True, slots=True)
class Act:
    """A bulk act without its items; `asked_at` in milliseconds. A cancelling is final.

    A person let the act go on after it had been stopped `resumed` times. `clash` tells that two
    processes took one key at once, for two different acts. `overwritten` tells that an earlier
    owner's progress may be the last record of its key, so that ours has to be written once more.
    """

    bulk_id: str
    asked: BulkAsked | None = None
    asked_at: int = 0
    asked_by: str = ""
    paused: bool = False
    resumed: int = 0
    cancelled: BulkCancelled | None = None
    progress: BulkProgress | None = None
    clash: bool = False
    overwritten: bool = False

    def folded(self, record: BulkRecord) -> Act:
        """Return this act with one more record of the topic."""
        match record.body:
            case BulkAsked() as asked:
                return replace(
                    self._planned(asked), asked=asked, asked_at=record.at, asked_by=record.by
                )
            case BulkPaused(paused, stops):
                return replace(self, paused=paused, resumed=max(self.resumed, stops))
            case BulkCancelled() as cancelled:
                return replace(self, cancelled=cancelled)
            case BulkProgress() as progress:
                return self._moved(progress)
            case BulkItem() | BulkJoined():
                return self

    def _planned(self, asked: BulkAsked) -> Act:
        """Return this act under what is asked now: another plan of one request begins anew."""
        before = self.asked
        if before is not None and before.digest != asked.digest:
            return replace(self, clash=True)
        is_same = before is not None and before.items_digest == asked.items_digest
        return self if is_same else replace(self, progress=None, overwritten=False)

    def _moved(self, progress: BulkProgress) -> Act:
        """Return the act as far as an owner says, unless that is late, or about another plan."""
        plan = None if self.asked is None or self.clash else self.asked.items_digest
        if None not in (plan, progress.plan) and plan != progress.plan:
            return replace(self, overwritten=self.progress is not None)
        if self.ended or progress.stops < self.stops:
            return replace(self, overwritten=progress != self.progress)
        return replace(self, progress=progress, overwritten=False)

    @property
    def stops(self) -> int:
        """How many times the act was stopped because too many items failed."""
        return self.progress.stops if self.progress else 0

    @property
    def is_stopped(self) -> bool:
        """Whether too many items failed, and nobody has let the act go on."""
        return self.resumed < self.stops

    @property
    def ended(self) -> bool:
        return self.progress is not None and self.progress.status in ENDED

    @property
    def ordered(self) -> BulkStatus:
        """The state that the records of the API order; an end is final whatever they say."""
        if self.cancelled is not None or self.clash:
            return CANCELLED
        if self.paused:
            return PAUSED
        return STOPPED if self.is_stopped else RUNNING

    @property
    def unobeyed(self) -> bool:
        """Whether the carrier has something left to do."""
        if self.asked is None:
            return False
        if self.ended or self.overwritten:
            return self.overwritten
        rests = self.progress is not None and self.progress.status in (PAUSED, STOPPED)
        return not rests or self.ordered in (RUNNING, CANCELLED)

    @property
    def status(self) -> str:
        """The state in one word.

        It is `queued` until the carrier takes it, and `pausing` or `cancelling` until it obeys.
        """
        if self.ended and self.progress is not None:
            return self.progress.status
        if self.cancelled is not None or self.clash:
            return "cancelling"
        if self.paused:
            works = self.progress is not None and self.progress.status == RUNNING
            return "pausing" if works else PAUSED
        if self.is_stopped:
            return STOPPED
        works = self.progress is not None and self.progress.status == RUNNING
        return RUNNING if works else "queued"
