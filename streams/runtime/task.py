"""A task: one partition of one stage, with its stores, its processor and uncommitted work.

Everything a task does is provisional until `committed`: writes are in the overlays, outputs in a
list, positions beside the committed ones. `rollback` forgets all of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import structlog

from streams.errors import ConfigError, StageFailed
from streams.runtime.clock import Clock
from streams.runtime.context import CaughtUpTo, Output, TaskContext
from streams.runtime.link import LINK
from streams.runtime.own_records import NOTHING, Written
from streams.runtime.positions import Positions
from streams.runtime.processor import Record
from streams.runtime.processor_calls import ProcessorCalls
from streams.runtime.record_handler import RecordHandler
from streams.runtime.stage import Stage
from streams.runtime.task_stores import QUIET_MS, TaskStores
from streams.state.store import Backend, Logged

log = structlog.get_logger(__name__)


class Task:
    """Runs a stage's processor over one partition; the same in production and in tests.

    It is a `PartitionTask`, whose docstrings hold here too. Its records are handled by its
    `RecordHandler`.
    """

    def __init__(
        self,
        stage: Stage,
        partition: int,
        backends: Mapping[str, Backend],
        clock: Clock,
        caught_up_to: CaughtUpTo,
        positions: Mapping[str, int],
        set_aside: AbstractSet[tuple[str, int, int]] = frozenset(),
    ) -> None:
        self.stage = stage
        self.partition = partition
        self._stores = TaskStores(stage, backends)
        self.stores = self._stores.by_name
        self.ctx = TaskContext(partition, clock, self.stores, caught_up_to)
        self.hand_over = True
        self._positions = Positions(positions, clock)
        self._commands: list[Record] = []
        self._clock = clock
        # The first commit gives old stores a new date. Until then a process that was frozen since
        # it restored them cannot know that they are still its own.
        dates = (checkpoint.written_at_ms for checkpoint in self._stores.checkpoints())
        self._worked_at = self._current_at = min(dates, default=clock.now())
        self._processor = ProcessorCalls(stage.name, partition, stage.processor(partition))
        self._handler = RecordHandler(stage, self.ctx, self._stores, self._processor, set_aside)
        self._durable_time = max((c.stream_time for c in self._stores.checkpoints()), default=0)
        self._stream_time = self.ctx.stream_time = self._durable_time

    def restoring(self) -> Generator[None]:
        self._handler.restored()
        yield from self._processor.restoring(self.ctx)

    def restored(self) -> None:
        for _ in self.restoring():
            pass

    @property
    def poisoned(self) -> int:
        return self._handler.poisoned

    def process(self, records: Sequence[Record]) -> None:
        self._worked_at = self._clock.now()
        self._handler.process(records)
        self._handled(records)

    def accept(self, records: Sequence[Record]) -> bool:
        """Handle records that are not yet in their topics; see `RecordHandler.accept`."""
        self._worked_at = self._clock.now()
        return self._handler.accept(records)

    def refuse(self, record: Record, reason: str, detail: str) -> None:
        self._handler.refuse(record, reason, detail)
        self._handled([record])

    def punctuate(self) -> None:
        self._worked_at = self._clock.now()
        self._processor.punctuate(self._worked_at, self.ctx)

    def rests(self) -> bool:
        return self._processor.rests(self.ctx)

    def may_wait(self, records: Sequence[Record]) -> bool:
        return self._processor.may_wait(records, self.ctx)

    def put_off(self) -> None:
        """Do nothing: the loop asks at the stage's own pace."""

    def finish(self) -> None:
        self._processor.finish(self.ctx)

    @property
    def held_back(self) -> AbstractSet[str]:
        return frozenset()

    @property
    def initiates(self) -> bool:
        return self._processor.initiates

    def initiate(self, limit: int | None = None) -> int:
        self._worked_at = self._clock.now()
        before = len(self.ctx.outputs)
        self._processor.initiate(self.ctx, limit)
        return sum(len(records) for _, _, records in self.ctx.outputs[before:])

    def drop_refused(self, topic: str, key: bytes | None, detail: str, missing: bool) -> None:
        log.warning(
            "an output that belongs to no record is refused",
            topic=topic,
            key=key,
            detail=detail,
            missing=missing,
        )
        self._processor.refuse(topic, key, detail, missing, self.ctx)

    @property
    def commands(self) -> Sequence[Record]:
        return self._commands

    @property
    def dirty(self) -> bool:
        return self._positions.moved or self.due

    @property
    def due(self) -> bool:
        """Whether it must be committed now.

        Its positions are committed every six hours even without work, for two reasons. A broker
        forgets positions of inputs to which the group is not subscribed (KIP-496), and a group
        subscribes only to a stage's first input. And a store that is not dated again counts as an
        old one (`restoring_store.distrust`). Commands of the link are always committed.
        """
        stale = self._clock.now() - self._current_at > QUIET_MS
        work = bool(self._commands) or self.ctx.pending != (0, 0)
        return stale or self._positions.due or work

    def move(self, to: Mapping[str, int]) -> None:
        """Pass by the records before these positions: they need not be read."""
        self._positions.move(to)

    def advanced(self) -> None:
        if self._positions.keep() or self.ctx.log:
            self._stream_time = self.ctx.stream_time
            self._processor.committed(self.ctx)

    @property
    def positions(self) -> dict[str, int]:
        return self._positions.current

    @property
    def outputs(self) -> list[Output]:
        return self.ctx.outputs

    def changelog(self) -> Iterator[tuple[str, str, Logged, int]]:
        return self._stores.changelog(self.ctx.stream_time or self._clock.now())

    @property
    def changes(self) -> int:
        return self._stores.changes

    def committed(
        self, changelog_offsets: Mapping[str, int], written: Mapping[str, Written] = NOTHING
    ) -> None:
        """Give a store that has not changed for long a new date, too.

        It is that of the beginning of the work, since a process may be frozen between the broker's
        answer and now.
        """
        self._current_at = self._worked_at
        try:
            self._stores.commit(changelog_offsets, self._current_at, self.ctx.stream_time)
        except ConfigError as denied:
            raise StageFailed(
                f"stage {self.stage.name} cannot write the state of partition {self.partition}, "
                f"which Kafka has committed: {denied}. Then start the stage again: it takes from "
                "the changelogs what is missing"
            ) from denied
        self.ctx.outputs.clear()
        self._commands.clear()
        self._positions.committed()
        self._stream_time = self._durable_time = self.ctx.stream_time
        self._processor.committed(self.ctx)

    def rollback(self) -> None:
        self._stores.drop()
        self.ctx.outputs.clear()
        self._commands.clear()
        self._positions.rollback()
        self.ctx.stream_time = self._stream_time
        self._processor.undo(self.ctx.log.rollback, self.ctx)

    def closed(self) -> None:
        self._processor.closed()

    def _handled(self, records: Sequence[Record]) -> None:
        if self.stage.link is not None:
            self._commands += [record for record in records if record.topic == LINK]
            records = [record for record in records if record.topic != LINK]
        if records:
            self._positions.handled(records)

    def close(self) -> None:
        self.closed()
        self._stores.close(self._current_at, self._durable_time)
