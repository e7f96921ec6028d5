"""A task: one partition of one stage, its stores, its processor, what it has yet to commit.

Everything a task does is provisional until `committed`: writes lie in the overlays, outputs in
a list, positions beside the committed ones. `rollback` forgets all of it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter

import structlog

from streams.errors import PoisonRecord, StoreDamaged, TidegateError
from streams.runtime.clock import Clock
from streams.runtime.context import ReadThrough, TaskContext
from streams.runtime.poison import TOPIC as DLQ
from streams.runtime.poison import dead_letter
from streams.runtime.processor import Record, Stage
from streams.state.overlay import Overlay
from streams.state.store import Backend, Checkpoint, Logged

log = structlog.get_logger(__name__)

_QUIET_MS = 21_600_000  # a quarter of the time for which Kafka, by default, keeps tombstones
_TOPIC, _, _OFFSET, _TIMESTAMP = map(itemgetter, range(4))  # of a record; by name costs double


class Task:
    """Runs a stage's processor over one partition; the same in production and in tests.

    `positions` is the next offset to process of each input (logical topic), and `poisoned`
    counts the records sent to `dlq`.
    """

    def __init__(
        self,
        stage: Stage,
        partition: int,
        backends: Mapping[str, Backend],
        clock: Clock,
        read_through: ReadThrough,
        positions: Mapping[str, int],
    ) -> None:
        self.stage = stage
        self.partition = partition
        self.stores = {name: Overlay(backend) for name, backend in backends.items()}
        self.ctx = TaskContext(partition, clock, self.stores, read_through)
        self.positions = dict(positions)
        self.poisoned = 0
        self._committed = dict(positions)
        self._clock = clock
        # Old ones are dated anew by the first commit: until then a process that was frozen since it
        # restored them cannot know that they are still its own.
        dates = (checkpoint.written_at_ms for checkpoint in self._checkpoints())
        self._worked_at = self._current_at = min(dates, default=clock.now())
        self._processor = stage.processor(partition)
        self._batch = getattr(self._processor, "process_batch", None)
        self._outputs_before = 0
        self._stream_time = max((c.stream_time for c in self._checkpoints()), default=0)
        self.ctx.stream_time = self._stream_time

    def restored(self) -> None:
        """Let the processor build what it derives from its stores.

        Raises:
            TidegateError: the processor wrote, which its contract forbids.
        """
        before = self._pending()
        self._processor.restored(self.ctx)
        if self._pending() != before:
            raise TidegateError(f"stage {self.stage.name}: its processor wrote in `restored`")

    def process(self, records: Sequence[Record]) -> None:
        """Handle records in order; one that cannot be handled leaves a dead letter instead."""
        self._worked_at = self._clock.now()
        if self._batch is None or not self._handled_together(records, self._batch):
            for record in records:
                self._handle(record)

    def refuse(self, record: Record, reason: str, detail: str) -> None:
        """Pass a record by, leaving a dead letter in place of all it would have done."""
        self.positions[record.topic] = record.offset + 1
        self.poisoned += 1
        letter = dead_letter(self.stage.name, record, self.ctx.now, reason, detail)
        self.ctx.forward(DLQ, *letter)
        log.warning(
            "record sent to dlq", reason=reason, detail=detail,
            topic=record.topic, partition=record.partition, offset=record.offset,
        )  # fmt: skip

    def punctuate(self) -> None:
        """Tell the processor that time has passed; what it did before it raised is undone."""
        self._worked_at = self._clock.now()
        self._mark()
        try:
            self._processor.punctuate(self._worked_at, self.ctx)
        except StoreDamaged:
            raise
        except Exception:
            log.exception("punctuate raised: undone, called again next time")
            self._undo()
            self.restored()

    @property
    def dirty(self) -> bool:
        """Whether there is anything to commit.

        Every six hours its positions are: a broker forgets those of inputs that the group is not
        subscribed to (KIP-496), and a group subscribes to a stage's first input alone; and stores
        that nobody dates anew are taken for old ones (`restore.distrust`).
        """
        stale = self._clock.now() - self._current_at > _QUIET_MS
        return stale or self.positions != self._committed or self._pending() != (0, 0)

    def changelog(self) -> Iterator[tuple[str, str, Logged, int]]:
        """For each store that changed: its name, its changelog, the records, and their timestamp.

        It is the stream time, so that a rebuilt store knows it.
        """
        at = self.ctx.stream_time or self._clock.now()
        for spec in self.stage.stores:
            store = self.stores[spec.name]
            if store.changes:
                yield spec.name, spec.changelog, store.backend.to_changelog(store.changes), at

    @property
    def changes(self) -> int:
        """How many entries of its stores are to be changed."""
        return sum(len(store.changes) for store in self.stores.values())

    def committed(self, changelog_offsets: Mapping[str, int]) -> None:
        """The transaction is committed: write it to the backends.

        `changelog_offsets` names, for each store that changed, the offset behind its last
        changelog record. A store that did not for long is dated anew: of when the work began,
        since a process may be frozen between the broker's answer and now.
        """
        self._current_at = self._worked_at
        for name, store in self.stores.items():
            offset = changelog_offsets[name] if store.changes else self._quiet_at(store)
            if offset is not None:
                dated = Checkpoint(offset, self._current_at, self.ctx.stream_time)
                store.backend.write(store.changes, dated)
            store.drop()
        self.ctx.outputs.clear()
        self._committed = dict(self.positions)
        self._stream_time = self.ctx.stream_time

    def rollback(self) -> None:
        """The transaction is aborted: be as after the last commit."""
        for store in self.stores.values():
            store.drop()
        self.ctx.outputs.clear()
        self.positions = dict(self._committed)
        self.ctx.stream_time = self._stream_time
        self.restored()

    def close(self) -> None:
        """Leave the state as committed, dated when it was last known to be current.

        Not now: a process that was frozen may close what has long been another's.
        """
        for name, store in self.stores.items():
            try:
                checkpoint = store.backend.checkpoint()
                if checkpoint is not None:
                    dated = Checkpoint(checkpoint.offset, self._current_at, self._stream_time)
                    store.backend.write({}, dated)
            except StoreDamaged as damaged:
                log.warning("store is damaged", store=name, why=str(damaged))
            finally:
                store.backend.close()

    def _handled_together(
        self, records: Sequence[Record], batch: Callable[[Sequence[Record], TaskContext], None]
    ) -> bool:
        self._mark()
        try:
            batch(records, self.ctx)
        except StoreDamaged:
            raise
        except Exception:
            if self._undo():
                self.restored()
            return False
        last = dict(zip(map(_TOPIC, records), map(_OFFSET, records), strict=True))
        self.positions.update({topic: offset + 1 for topic, offset in last.items()})
        self.ctx.stream_time = max(self.ctx.stream_time, *map(_TIMESTAMP, records))
        return True

    def _handle(self, record: Record) -> None:
        self._mark()
        self.ctx.stream_time = max(self.ctx.stream_time, record.timestamp)
        try:
            self._processor.process(record, self.ctx)
        except StoreDamaged:
            raise
        except PoisonRecord as poison:
            self._pass_by(record, poison.reason, poison.detail)
        except Exception as error:
            log.error("processor raised", error=traceback.format_exc())
            self._pass_by(record, "processor_error", f"{type(error).__name__}: {error}")
        else:
            self.positions[record.topic] = record.offset + 1

    def _pass_by(self, record: Record, reason: str, detail: str) -> None:
        changed = self._undo()
        self.refuse(record, reason, detail)
        if changed or reason == "processor_error":
            self.restored()

    def _mark(self) -> None:
        self._outputs_before = len(self.ctx.outputs)
        for store in self.stores.values():
            store.mark()

    def _undo(self) -> bool:
        changed = len(self.ctx.outputs) > self._outputs_before
        del self.ctx.outputs[self._outputs_before :]
        for store in self.stores.values():
            changed |= store.undo()
        return changed

    def _quiet_at(self, store: Overlay) -> int | None:
        checkpoint = store.backend.checkpoint()
        if checkpoint is None or self._current_at - checkpoint.written_at_ms <= _QUIET_MS:
            return None
        return checkpoint.offset

    def _pending(self) -> tuple[int, int]:
        return len(self.ctx.outputs), self.changes

    def _checkpoints(self) -> Iterator[Checkpoint]:
        for store in self.stores.values():
            checkpoint = store.backend.checkpoint()
            if checkpoint is not None:
                yield checkpoint
