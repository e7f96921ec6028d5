"""A task: one partition of one stage, with its stores, its processor and uncommitted work.

Everything a task does is provisional until `committed`: writes are in the overlays, outputs in a
list, positions beside the committed ones. `rollback` forgets all of it.
"""

from __future__ import annotations

import traceback
from collections.abc import Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter

import structlog

from streams import dead_letter
from streams.errors import ConfigError, PoisonRecord, StageFailed, StoreDamaged
from streams.runtime import returned_letters
from streams.runtime.clock import Clock
from streams.runtime.context import CaughtUpTo, Output, TaskContext
from streams.runtime.dead_keys import DeadKeys
from streams.runtime.positions import Positions
from streams.runtime.processor import Header, Record, Stage
from streams.runtime.processor_calls import ProcessorCalls, refuse_writes
from streams.runtime.task_stores import QUIET_MS, TaskStores
from streams.serde.records import DeadLetter
from streams.state.store import Backend, Logged
from streams.tracing import steps
from streams.tracing.conventions import ERROR_TYPE

log = structlog.get_logger(__name__)

_TIMESTAMP = itemgetter(3)  # of a record; access by name costs double
_PLACE = itemgetter(0, 1, 2)
_TAKEN_HEADER = "tidegate-taken"
_LETTER = dead_letter.LETTER_HEADER
_LOOKED_AT = frozenset((_TAKEN_HEADER, _LETTER))
"""Last headers of records that are not simply handled."""


def taken_by(stage: str) -> Header:
    """The last header of a record that a stage handled in the transaction that wrote it."""
    return _TAKEN_HEADER, stage.encode()


class Task:
    """Runs a stage's processor over one partition; the same in production and in tests.

    It is a `PartitionTask`, whose docstrings hold here too. Records of `set_aside` (topic,
    partition, offset) go to `dlq` unprocessed, because an operator asked for it. Records that this
    stage took when they were written are skipped. A dead letter that comes back is answered.
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
        self._dead_keys = DeadKeys(stage, self.stores)
        self.poisoned = 0
        self.hand_over = True
        self._positions = Positions(positions, clock)
        self._taken = taken_by(stage.name)
        self._clock = clock
        # The first commit gives old stores a new date. Until then a process that was frozen since
        # it restored them cannot know that they are still its own.
        dates = (checkpoint.written_at_ms for checkpoint in self._stores.checkpoints())
        self._worked_at = self._current_at = min(dates, default=clock.now())
        self._processor = ProcessorCalls(stage.name, partition, stage.processor(partition))
        self._set_aside = set_aside
        self._outputs_before = 0
        self._stream_time = max((c.stream_time for c in self._stores.checkpoints()), default=0)
        self.ctx.stream_time = self._stream_time

    def restoring(self) -> Generator[None]:
        before = self._pending()
        self._dead_keys.restored()
        yield from self._processor.restoring(self.ctx)
        refuse_writes(self.stage.name, "restored", before, self._pending())

    def restored(self) -> None:
        for _ in self.restoring():
            pass

    def process(self, records: Sequence[Record]) -> None:
        self._worked_at = self._clock.now()
        looked_at = [r for r in records if r[6] and r[6][-1][0] in _LOOKED_AT]
        if looked_at:
            self._process_apart(records, looked_at)
        else:
            self._handle_all(records)

    def accept(self, records: Sequence[Record]) -> bool:
        """Handle records that are not yet in their topics; False if none was: read them there.

        Raises:
            StoreDamaged: the store has to be rebuilt.
        """
        if self._set_aside:
            return False
        self._worked_at = self._clock.now()
        self._mark()
        try:
            self._processor.handle_all(records, self.ctx)
        except (PoisonRecord, StageFailed):
            self._take_back()
            return False
        self._outlive(records)
        self.ctx.stream_time = max(self.ctx.stream_time, *map(_TIMESTAMP, records))
        return True

    def refuse(self, record: Record, reason: str, detail: str) -> None:
        self._positions.handled([record])
        self.poisoned += 1
        letter = self._returned(record)
        if letter is None:
            self._dead_keys.add(record)
            letter = dead_letter.of_record(
                self.stage.name, *record, reason=reason, detail=detail, at=self.ctx.now
            )
        else:
            letter = returned_letters.failed(letter, reason, detail)
        self.ctx.forward(dead_letter.TOPIC, *dead_letter.encoded(letter))
        steps.mark([record], ERROR_TYPE, reason)
        log.warning(
            "record sent to dlq", reason=reason, detail=detail,
            topic=record.topic, partition=record.partition, offset=record.offset,
        )  # fmt: skip

    def punctuate(self) -> None:
        self._worked_at = self._clock.now()
        self._processor.punctuate(self._worked_at, self.ctx)

    def put_off(self) -> None:
        """Do nothing: the loop asks at the stage's own pace."""

    @property
    def initiates(self) -> bool:
        return self._processor.initiate is not None

    def initiate(self, limit: int | None = None) -> int:
        self._worked_at = self._clock.now()
        before = len(self.ctx.outputs)
        self._processor.start(self.ctx, limit)
        return sum(len(records) for _, _, records in self.ctx.outputs[before:])

    def drop_refused(self, topic: str, key: bytes | None, detail: str, missing: bool) -> None:
        log.warning(
            "an output that belongs to no record is refused",
            topic=topic, key=key, detail=detail, missing=missing,
        )  # fmt: skip
        self._processor.refuse(topic, key, detail, missing, self.ctx)

    @property
    def dirty(self) -> bool:
        """Whether there is anything to commit.

        Its positions are committed every six hours even without work, for two reasons. A broker
        forgets positions of inputs to which the group is not subscribed (KIP-496), and a group
        subscribes only to a stage's first input. And a store that is not dated again counts as an
        old one (`restore.distrust`).
        """
        stale = self._clock.now() - self._current_at > QUIET_MS
        return stale or self._positions.due or self._pending() != (0, 0)

    @property
    def positions(self) -> dict[str, int]:
        return self._positions.current

    @property
    def outputs(self) -> list[Output]:
        return self.ctx.outputs

    def changelog(self) -> Iterator[tuple[str, str, Logged, int]]:
        at = self.ctx.stream_time or self._clock.now()
        for name, topic, records in self._stores.changelog():
            yield name, topic, records, at

    @property
    def changes(self) -> int:
        return self._stores.changes

    def committed(self, changelog_offsets: Mapping[str, int]) -> None:
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
        self._positions.committed()
        self._stream_time = self.ctx.stream_time
        self._dead_keys.committed()
        self._processor.committed()

    def rollback(self) -> None:
        self._stores.drop()
        self.ctx.outputs.clear()
        self._positions.rollback()
        self.ctx.stream_time = self._stream_time
        self._correct()

    def closed(self) -> None:
        self._processor.closed()

    def close(self) -> None:
        self.closed()
        self._stores.close(self._current_at, self._stream_time)

    def _process_apart(self, records: Sequence[Record], looked_at: Sequence[Record]) -> None:
        """Skip what was taken, answer letters that come back, and handle what is between them."""
        taken = [record for record in looked_at if self._has_taken(record)]
        if taken:
            self._positions.pass_by(taken)
            whole = len(taken) == len(records)
            records = [] if whole else [r for r in records if not self._has_taken(r)]
        others = looked_at if len(taken) < len(looked_at) else ()
        letters = {id(r): self._returned(r) for r in others if r[6][-1][0] == _LETTER}
        begin = 0
        for place, record in enumerate(records) if letters else ():
            letter = letters.get(id(record))
            if letter is not None:
                self._handle_all(records[begin:place])
                self._outlive(taken)
                self._take_letter(letter, record)
                begin = place + 1
        self._handle_all(records[begin:])
        self._outlive(taken)

    def _handle_all(self, records: Sequence[Record]) -> None:
        if records and not self._handled_together(records):
            for record in records:
                self._handle(record)

    def _take_letter(self, letter: DeadLetter, carrier: Record) -> None:
        """Handle the record of a letter that came back, unless something newer was read."""
        record = returned_letters.as_read(letter, carrier)
        if not self._set_aside.isdisjoint(map(_PLACE, (carrier, record))):
            self.refuse(carrier, "set_aside", "TIDEGATE_SET_ASIDE names it")
        elif not self._dead_keys.may_take(letter):
            self._answer(returned_letters.superseded(letter), carrier)
        elif self._handled(record, carrier):
            self._dead_keys.taken(letter)
            self._answer(returned_letters.taken(letter), carrier)

    def _returned(self, record: Record) -> DeadLetter | None:
        return returned_letters.returned(record, self.stage, self.partition)

    def _answer(self, letter: DeadLetter, carrier: Record) -> None:
        self._positions.handled([carrier])
        self.ctx.forward(dead_letter.TOPIC, *dead_letter.encoded(letter))
        log.info("dead letter came back", id=letter.id, outcome=letter.replay_outcome)

    def _outlive(self, records: Sequence[Record]) -> None:
        """Note that records were taken, after which no dead letter of their keys may be."""
        if self._dead_keys:
            self._dead_keys.discard(records)

    def _handled_together(self, records: Sequence[Record]) -> bool:
        if self._processor.batch is None or self._asked_aside(records):
            return False
        self._mark()
        try:
            self._processor.batch(records, self.ctx)
        except StoreDamaged:
            raise
        except Exception as error:
            if not isinstance(error, PoisonRecord):
                raised = traceback.format_exc()  # plain text: rendering it would take descriptors
                log.warning("a batch raised: its records are tried one by one", error=raised)
            self._take_back()
            return False
        self._positions.handled(records)
        self._outlive(records)
        self.ctx.stream_time = max(self.ctx.stream_time, *map(_TIMESTAMP, records))
        return True

    def _handle(self, record: Record) -> None:
        self.ctx.stream_time = max(self.ctx.stream_time, record.timestamp)
        if self._set_aside and _PLACE(record) in self._set_aside:
            self.refuse(record, "set_aside", "TIDEGATE_SET_ASIDE names it")
        elif self._handled(record, record):
            self._positions.handled([record])
            self._outlive([record])

    def _handled(self, record: Record, read: Record) -> bool:
        """Handle a record; if it is poison, refuse the one that was read in its place."""
        self._mark()
        try:
            self._processor.handle(record, self.ctx)
        except PoisonRecord as poison:
            self._take_back()
            self.refuse(read, poison.reason, poison.detail)
            return False
        return True

    def _has_taken(self, record: Record) -> bool:
        headers = record[6]  # access by name costs double
        return bool(headers) and headers[-1] == self._taken

    def _asked_aside(self, records: Sequence[Record]) -> bool:
        return bool(self._set_aside) and not self._set_aside.isdisjoint(map(_PLACE, records))

    def _take_back(self) -> None:
        """Undo everything since the mark, including what the processor changed only in memory."""
        del self.ctx.outputs[self._outputs_before :]
        self._stores.undo()
        self._correct()

    def _correct(self) -> None:
        """Bring the processor's derived state in line with stores in which something was undone."""
        self._dead_keys.undone()
        if self._processor.undone is None:
            self.restored()
            return
        before = self._pending()
        self._processor.undo(self.ctx)
        refuse_writes(self.stage.name, "undone", before, self._pending())

    def _mark(self) -> None:
        self._outputs_before = len(self.ctx.outputs)
        self._stores.mark()

    def _pending(self) -> tuple[int, int]:
        return len(self.ctx.outputs), self.changes
