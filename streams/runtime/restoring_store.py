"""A store during its restore, and whether it can go on from its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from confluent_kafka import Message

from streams.kafka.offsets import Place
from streams.runtime.backends import fold
from streams.runtime.topics import Changelog
from streams.state.store import Backend, Checkpoint

log = structlog.get_logger(__name__)


@dataclass
class Restoring:
    """One store during its restore: `next` is the first offset not yet folded in.

    `unread` holds changes that are read but not folded in, and the newest timestamp of their
    records; `entries` counts those that are folded in.
    """

    store: str
    partition: int
    backend: Backend
    changelog: Changelog
    next: int = 0
    target: int = 0
    entries: int = 0
    newest: int = 0
    unread: dict[bytes, bytes | None] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return max(0, self.target - self.next)

    def take(self, messages: Sequence[Message]) -> None:
        """Hold the changes in these changelog records."""
        records = ((m.key() or b"", m.value()) for m in messages)
        self.unread |= self.backend.from_changelog(records)
        self.newest = max(self.newest, *(m.timestamp()[1] for m in messages))

    def fold(self, position: int, now_ms: int) -> None:
        """Write the held changes, which are all those before this position."""
        fold(self.backend, self.unread, self.newest, position, now_ms)
        self.entries += len(self.unread)
        self.unread.clear()
        self.next = position


def distrust(
    checkpoint: Checkpoint, start: int, end: int, changelog: Changelog, now_ms: int
) -> str | None:
    """Why a store must be rebuilt; None if it can go on from its checkpoint.

    `start` and `end` are the changelog's offsets. If the checkpoint is older than half of the time
    for which deletions stay in the changelog, the store may hold what was deleted meanwhile. A date
    that is as far in the future, from a clock that was wrong, does not say how old the store is.
    """
    if checkpoint.offset < start:
        return f"its checkpoint {checkpoint.offset} lies before the changelog's start {start}"
    if checkpoint.offset > end:
        return f"its checkpoint {checkpoint.offset} lies behind the changelog's end {end}"
    age_ms = now_ms - checkpoint.written_at_ms
    if abs(age_ms) > changelog.tombstones_ms / 2:
        return f"it is {age_ms / 3_600_000:.1f} hours old: deletions may be missing"
    return None


def ahead(
    stores: Mapping[Place, Restoring], ends: Mapping[Place, int]
) -> dict[Place, tuple[int, int]]:
    """The checkpoint and the end of each store that has more than its changelog."""
    checkpoints = ((place, store.backend.checkpoint()) for place, store in stores.items())
    return {
        place: (checkpoint.offset, ends[place])
        for place, checkpoint in checkpoints
        if checkpoint is not None and checkpoint.offset > ends[place]
    }


def begin(store: Restoring, start: int, end: int, now_ms: int) -> None:
    """Go on from a store's checkpoint if it can be trusted, else begin it anew."""
    checkpoint = store.backend.checkpoint()
    store.next, store.target = start, end
    if checkpoint is not None:
        why = distrust(checkpoint, start, end, store.changelog, now_ms)
        if why is None:
            store.next = checkpoint.offset
            return
        log.warning("store is rebuilt", store=store.store, partition=store.partition, why=why)
    store.backend.wipe()  # wipe even an empty one: an interrupted wipe may have left it
