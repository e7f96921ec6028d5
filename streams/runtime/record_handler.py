"""Hands a task's records to its processor, and takes back what a poison record did.

It handles a batch in one call if the processor can, and else record by record. A record that can
never be handled leaves a dead letter. A dead letter that comes back is answered.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter

import structlog

from streams import dead_letter
from streams.errors import PoisonRecord, StageFailed, StoreDamaged
from streams.runtime import metrics, returned_letters
from streams.runtime.context import TaskContext
from streams.runtime.dead_keys import DeadKeys
from streams.runtime.link import LINK
from streams.runtime.occasions import Occasions
from streams.runtime.processor import Header, Record
from streams.runtime.processor_calls import ProcessorCalls
from streams.runtime.stage import Stage
from streams.runtime.task_stores import TaskStores
from streams.serde.records import DeadLetter
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


class RecordHandler:
    """Handles the records of one task, all provisionally; `poisoned` counts those sent to `dlq`.

    Records of `set_aside` (topic, partition, offset) go to `dlq` unprocessed, because an operator
    asked for it. Records that this stage took when they were written are skipped.
    """

    def __init__(
        self,
        stage: Stage,
        ctx: TaskContext,
        stores: TaskStores,
        processor: ProcessorCalls,
        set_aside: AbstractSet[tuple[str, int, int]],
    ) -> None:
        self.poisoned = 0
        self._stage = stage
        self._ctx = ctx
        self._stores = stores
        self._processor = processor
        self._set_aside = set_aside
        self._dead_keys = DeadKeys(stage, stores.by_name)
        self._taken = taken_by(stage.name)
        self._outputs_before = 0
        self._occasions = Occasions()

    def restored(self) -> None:
        """The stores are complete."""
        self._dead_keys.restored()

    def process(self, records: Sequence[Record]) -> None:
        """Handle records in the order of their topics."""
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
        stream_time = self._ctx.stream_time
        self._mark()
        try:
            self._run(records)
        except (PoisonRecord, StageFailed):
            self._take_back()
            self._ctx.stream_time = stream_time
            return False
        self._outlive(records)
        return True

    def refuse(self, record: Record, reason: str, detail: str) -> None:
        """Skip a record, and leave a dead letter in its place, or answer the one it brings back.

        A command of the link leaves no letter: its sender is answered.
        """
        if record.topic == LINK:
            poison = PoisonRecord(reason, detail)
            if not self._processor.answer(record, poison, self._ctx, record):
                self._drop(record, poison)
            return
        self.poisoned += 1
        letter = self._returned(record)
        if letter is None:
            self._dead_keys.add(record)
            letter = dead_letter.of_record(
                self._stage.name, *record, reason=reason, detail=detail, at=self._ctx.now
            )
        else:
            letter = returned_letters.failed(letter, reason, detail)
        self._ctx.forward(dead_letter.TOPIC, *dead_letter.encoded(letter))
        steps.mark([record], ERROR_TYPE, reason)
        log.warning(
            "record sent to dlq",
            reason=reason,
            detail=detail,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )

    def _process_apart(self, records: Sequence[Record], looked_at: Sequence[Record]) -> None:
        """Skip what was taken, answer letters that come back, and handle what is between them."""
        taken = [record for record in looked_at if self._has_taken(record)]
        if taken:
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

    def _take_letter(self, letter: DeadLetter, carrier: Record) -> None:
        """Handle the record of a letter that came back, unless something newer was read."""
        record = returned_letters.as_read(letter, carrier)
        if self._asked_aside((carrier, record)):
            self.refuse(carrier, "set_aside", "TIDEGATE_SET_ASIDE names it")
        elif not self._dead_keys.may_take(letter):
            self._answer(returned_letters.superseded(letter))
        elif self._handled(record, carrier):
            self._dead_keys.taken(letter)
            self._answer(returned_letters.taken(letter))

    def _returned(self, record: Record) -> DeadLetter | None:
        return returned_letters.returned(record, self._stage, self._ctx.partition)

    def _answer(self, letter: DeadLetter) -> None:
        self._ctx.forward(dead_letter.TOPIC, *dead_letter.encoded(letter))
        log.info("dead letter came back", id=letter.id, outcome=letter.replay_outcome)

    def _handle_all(self, records: Sequence[Record]) -> None:
        if records and not self._handled_together(records):
            for record in records:
                self._handle(record)

    def _handled_together(self, records: Sequence[Record]) -> bool:
        if not self._processor.batches or self._asked_aside(records):
            return False
        self._mark()
        try:
            self._processor.batch(records, self._ctx)
        except StoreDamaged:
            raise
        except Exception as error:
            if not isinstance(error, PoisonRecord) and self._occasions.is_told(error):
                raised = traceback.format_exc()  # plain text: rendering it would take descriptors
                log.warning("a batch raised: its records are tried one by one", error=raised)
            self._take_back()
            return False
        self._outlive(records)
        self._advance(records)
        return True

    def _run(self, records: Sequence[Record]) -> None:
        if self._processor.batches:
            self._processor.handle_all(records, self._ctx)
            self._advance(records)
            return
        for record in records:
            self._process(record, record)

    def _handle(self, record: Record) -> None:
        if self._set_aside and _PLACE(record) in self._set_aside:
            self.refuse(record, "set_aside", "TIDEGATE_SET_ASIDE names it")
        elif self._handled(record, record):
            self._outlive([record])

    def _handled(self, record: Record, read: Record) -> bool:
        """Handle a record; if it is poison, answer it, or refuse the one that was read for it."""
        self._mark()
        try:
            self._process(record, read)
        except PoisonRecord as poison:
            self._take_back()
            answered = self._processor.answer(record, poison, self._ctx, read)
            if answered and read is record:  # a letter that came back is answered itself
                return False
            if record.topic == LINK:
                self._drop(record, poison)
            else:
                self.refuse(read, poison.reason, poison.detail)
            return False
        return True

    def _drop(self, command: Record, poison: PoisonRecord) -> None:
        metrics.COMMANDS_DROPPED.labels(self._stage.name).inc()
        log.warning(
            "a worker's command is dropped",
            worker=(command.key or b"").decode(errors="replace"),
            partition=command.partition,
            reason=poison.reason,
            detail=poison.detail,
        )

    def _process(self, record: Record, read: Record) -> None:
        """Have the processor handle a record, which counts in the stream time that it sees."""
        self._ctx.stream_time = max(self._ctx.stream_time, record.timestamp)
        self._processor.handle(record, self._ctx, read)

    def _outlive(self, records: Sequence[Record]) -> None:
        """Note that records were taken, after which no dead letter of their keys may be."""
        if self._dead_keys:
            self._dead_keys.discard(records)

    def _advance(self, records: Sequence[Record]) -> None:
        self._ctx.stream_time = max(self._ctx.stream_time, *map(_TIMESTAMP, records))

    def _has_taken(self, record: Record) -> bool:
        headers = record[6]  # access by name costs double
        return bool(headers) and headers[-1] == self._taken

    def _asked_aside(self, records: Sequence[Record]) -> bool:
        return bool(self._set_aside) and not self._set_aside.isdisjoint(map(_PLACE, records))

    def _mark(self) -> None:
        self._outputs_before = len(self._ctx.outputs)
        self._stores.mark()
        self._ctx.log.mark()

    def _take_back(self) -> None:
        """Undo everything since the mark, including what the processor changed only in memory."""
        del self._ctx.outputs[self._outputs_before :]
        self._stores.undo()
        self._processor.undo(self._ctx.log.undo, self._ctx)
