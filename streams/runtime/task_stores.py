"""The stores of one task: uncommitted writes in overlays, the committed state in backends.

Writing committed changes, and closing, may fail as any disk access may. Neither failure loses
anything: the changelogs have it all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import structlog

from streams.errors import ConfigError, StoreDamaged
from streams.runtime.stage import Stage
from streams.state.overlay import Overlay
from streams.state.store import Backend, Checkpoint, Logged

log = structlog.get_logger(__name__)

QUIET_MS = 21_600_000
"""A quarter of the time for which Kafka, by default, keeps tombstones."""


class TaskStores:
    """Overlays `by_name`; the same steps for all of them."""

    def __init__(self, stage: Stage, backends: Mapping[str, Backend]) -> None:
        self.by_name = {name: Overlay(backend) for name, backend in backends.items()}
        self._specs = stage.stores

    @property
    def changes(self) -> int:
        """How many entries will change."""
        return sum(len(store.changes) for store in self.by_name.values())

    def mark(self) -> None:
        """Set the point to which `undo` returns."""
        for store in self.by_name.values():
            store.mark()

    def undo(self) -> None:
        """Take back every write since the mark."""
        for store in self.by_name.values():
            store.undo()

    def drop(self) -> None:
        """Forget all uncommitted writes."""
        for store in self.by_name.values():
            store.drop()

    def changelog(self, at: int) -> Iterator[tuple[str, str, Logged, int]]:
        """For each store that changed: its name, its changelog, the records, and their timestamp.

        That is `at`, or 0, the time of sending, for rows with an index, which are public.
        """
        for spec in self._specs:
            store = self.by_name[spec.name]
            records = store.backend.to_changelog(store.changes)
            if records:
                yield spec.name, spec.changelog, records, 0 if spec.index else at

    def checkpoints(self) -> Iterator[Checkpoint]:
        for store in self.by_name.values():
            checkpoint = store.backend.checkpoint()
            if checkpoint is not None:
                yield checkpoint

    def commit(self, offsets: Mapping[str, int], at: int, stream_time: int) -> None:
        """Write what changed to the backends, as of `at`.

        `offsets` has, for each store that changed, the offset after its last changelog record. A
        store of which an index alone changed keeps its offset. One that has not changed for long
        gets a new date.
        """
        for name, store in self.by_name.items():
            if store.backend.to_changelog(store.changes):
                offset: int | None = offsets[name]
            else:
                offset = _folded(store) if store.changes else _quiet_at(store, at)
            if offset is not None:
                store.backend.write(store.changes, Checkpoint(offset, at, stream_time))
            store.drop()

    def close(self, at: int, stream_time: int) -> None:
        """Close in the committed state, dated; a store that cannot be dated keeps its old date."""
        for name, store in self.by_name.items():
            try:
                checkpoint = store.backend.checkpoint()
                if checkpoint is not None:
                    store.backend.write({}, Checkpoint(checkpoint.offset, at, stream_time))
            except StoreDamaged as damaged:
                log.warning("store is damaged", store=name, why=str(damaged))
            except ConfigError as denied:
                log.warning("store is not dated", store=name, why=str(denied))
            close_backend(name, store.backend)


def close_backend(name: str, backend: Backend) -> None:
    """Close it; a disk that denies the last flush keeps no other store from being closed."""
    try:
        backend.close()
    except ConfigError as denied:
        log.warning("store is not flushed: its changelog has it", store=name, why=str(denied))


def _folded(store: Overlay) -> int | None:
    checkpoint = store.backend.checkpoint()
    return None if checkpoint is None else checkpoint.offset


def _quiet_at(store: Overlay, at: int) -> int | None:
    checkpoint = store.backend.checkpoint()
    if checkpoint is None or at - checkpoint.written_at_ms <= QUIET_MS:
        return None
    return checkpoint.offset
