"""One partition of several stages as one task: one part hands its outputs to the next.

Each part keeps its own stores, positions and stream time. If a part forwards a record to an input
of another part, that part handles it at once, in the same transaction. The record is still written
to its topic, with a header that names the part that took it, and that part skips it when it reads
the topic later. Of a topic that this stage alone writes, it reads only what it did not take
(`own_records`).

Each part handles the records of a topic in their order. So nothing of a topic is handed over while
older records of it may be unread, as after a start, or after a record that was not handed over.
Meanwhile the inputs that cause such records are held back, so that the part behind catches up
(`own_order`). If the other part cannot handle the record now (it is poison, or an output was
refused and its cause is being looked for), the record is written without the header. Then it is
read from its topic like any other, and has an offset by which a dead letter can name it. So both
layouts write the same records, and each can go on where the other stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, groupby

from streams.runtime.clock import Clock
from streams.runtime.context import CaughtUpTo, Output
from streams.runtime.dead_keys import NO_OFFSET
from streams.runtime.link import LINK
from streams.runtime.own_order import OwnOrder
from streams.runtime.own_records import NOTHING, Written, reach
from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import Record
from streams.runtime.record_handler import taken_by
from streams.runtime.stage import AnyStage, FusedStage, Stage
from streams.runtime.task import Task
from streams.state.overlay import Overlay
from streams.state.store import Backend, Logged


class FusedTask:
    """The tasks of one partition as one; the same in production and in tests."""

    def __init__(self, stage: FusedStage, parts: Sequence[Task], clock: Clock) -> None:
        self.stage: AnyStage = stage
        self.partition = parts[0].partition
        self.hand_over = True
        self._parts = parts
        self._clock = clock
        self._readers = {topic: part for part in parts for topic in part.stage.inputs}
        self._handlers = dict(self._readers)
        for part in parts:
            if part.stage.link is not None:
                self._handlers[LINK] = part
        self._looked = dict.fromkeys(parts, 0)
        self._taken: Counter[str] = Counter()
        self._order = OwnOrder(stage, parts, clock)
        self._due = dict.fromkeys(parts, 0.0)
        self._due_committed = dict(self._due)
        self._punctuated: list[Task] = []
        self._initiated: dict[tuple[str, bytes | None], Task] = {}

    def part(self, stage: str) -> Task:
        """The task of one of the stages."""
        return next(part for part in self._parts if part.stage.name == stage)

    @property
    def stores(self) -> dict[str, Overlay]:
        """The stores of all parts, by name."""
        return {name: store for part in self._parts for name, store in part.stores.items()}

    @property
    def poisoned(self) -> int:
        return sum(part.poisoned for part in self._parts)

    @property
    def positions(self) -> dict[str, int]:
        return {topic: at for part in self._parts for topic, at in part.positions.items()}

    @property
    def outputs(self) -> list[Output]:
        return [output for part in self._parts for output in part.outputs]

    @property
    def commands(self) -> list[Record]:
        return [record for part in self._parts for record in part.commands]

    @property
    def dirty(self) -> bool:
        return any(part.dirty for part in self._parts)

    @property
    def due(self) -> bool:
        return any(part.due for part in self._parts)

    @property
    def changes(self) -> int:
        return sum(part.changes for part in self._parts)

    @property
    def initiates(self) -> bool:
        return any(part.initiates for part in self._parts)

    @property
    def held_back(self) -> AbstractSet[str]:
        return self._order.held_back

    def restoring(self) -> Generator[None]:
        for part in self._parts:
            yield from part.restoring()
        self._order.look()

    def restored(self) -> None:
        for _ in self.restoring():
            pass

    def process(self, records: Sequence[Record]) -> None:
        """Handle each part's records in order, and the parts in the order of the flow."""
        for part in self._parts:
            own = [record for record in records if self._handlers[record.topic] is part]
            if own:
                part.process(own)
                self._pass_on(part)

    def refuse(self, record: Record, reason: str, detail: str) -> None:
        self._handlers[record.topic].refuse(record, reason, detail)

    def punctuate(self) -> None:
        """Punctuate each part at its own pace."""
        now = self._clock.monotonic()
        self._punctuated = [part for part in self._parts if now >= self._due[part]]
        for part in self._punctuated:
            self._due[part] = now + part.stage.punctuate_seconds
            part.punctuate()
            self._pass_on(part)

    def rests(self) -> bool:
        return all(part.rests() for part in self._parts)

    def may_wait(self, records: Sequence[Record]) -> bool:
        return all(
            part.may_wait(list(own))
            for part, own in groupby(records, lambda record: self._handlers[record.topic])
        )

    def put_off(self) -> None:
        now = self._clock.monotonic()
        self._due |= {part: now + part.stage.punctuate_seconds for part in self._punctuated}
        self._due_committed = dict(self._due)

    def initiate(self, limit: int | None = None) -> int:
        self._initiated.clear()
        left = limit
        forwarded = 0
        for part in self._parts:
            if not part.initiates or left == 0:
                continue
            before = len(part.outputs)
            count = part.initiate(left)
            self._initiated |= {(t, own[0].key): part for t, _, own in part.outputs[before:]}
            forwarded += count
            left = None if left is None else max(0, left - count)
            self._pass_on(part)
        return forwarded

    def finish(self) -> None:
        for part in self._parts:
            part.finish()
            self._pass_on(part)

    def drop_refused(self, topic: str, key: bytes | None, detail: str, missing: bool) -> None:
        self._initiated[topic, key].drop_refused(topic, key, detail, missing)

    def changelog(self) -> Iterator[tuple[str, str, Logged, int]]:
        return chain.from_iterable(part.changelog() for part in self._parts)

    def advanced(self) -> None:
        for part in self._parts:
            part.advanced()
        if self.hand_over:  # otherwise records that were read may wait for their turn
            self._order.look()

    def committed(
        self, changelog_offsets: Mapping[str, int], written: Mapping[str, Written] = NOTHING
    ) -> None:
        for part in self._parts:
            part.committed(changelog_offsets)
        for topic, own in written.items():
            reader = self._readers[topic]
            position = reader.positions[topic]
            if (after := reach(position, own, self._taken[topic])) > position:
                reader.move({topic: after})
        self._order.committed()
        self._taken.clear()
        self._looked = dict.fromkeys(self._parts, 0)
        self._due_committed = dict(self._due)

    def rollback(self) -> None:
        for part in self._parts:
            part.rollback()
        self._order.rollback()
        self._taken.clear()
        self._looked = dict.fromkeys(self._parts, 0)
        self._due = dict(self._due_committed)

    def closed(self) -> None:
        for part in self._parts:
            part.closed()

    def close(self) -> None:
        for part in self._parts:
            part.close()

    def _pass_on(self, part: Task) -> None:
        """Have other parts handle what this one forwarded to them since the last call."""
        begin, self._looked[part] = self._looked[part], len(part.outputs)
        for reader, places in self._for_others(part, begin).items():
            records = [r for place in places for r in self._as_read(part.outputs[place])]
            if self.hand_over and reader.accept(records):
                self._taken.update(record.topic for record in records)
                for place in places:
                    part.outputs[place] = _marked(part.outputs[place], reader.stage)
                self._pass_on(reader)
            else:
                self._order.left({record.topic for record in records})

    def _for_others(self, part: Task, begin: int) -> dict[Task, list[int]]:
        """The outputs from `begin` on that another part may handle now, by that part.

        What a part writes to an input of its own comes back from the topic.
        """
        found: dict[Task, list[int]] = {}
        for place in range(begin, len(part.outputs)):
            topic, to, records = part.outputs[place]
            reader = self._readers.get(topic)
            if not records or reader in (None, part) or to != self.partition:
                continue
            if topic in self._order:
                self._order.left({topic})
            else:
                found.setdefault(reader, []).append(place)
        return found

    def _as_read(self, output: Output) -> Iterator[Record]:
        topic, to, records = output
        now = self._clock.now()
        for _, _, _, at, key, value, headers in records:
            yield Record(topic, to, NO_OFFSET, at or now, key, value, headers)


def task_of(
    stage: AnyStage,
    partition: int,
    backends: Mapping[str, Backend],
    clock: Clock,
    caught_up_to: CaughtUpTo,
    positions: Mapping[str, int],
    set_aside: AbstractSet[tuple[str, int, int]] = frozenset(),
) -> PartitionTask:
    """The task of one partition of a stage, fused or not."""
    if isinstance(stage, Stage):
        return Task(stage, partition, backends, clock, caught_up_to, positions, set_aside)
    parts = [
        Task(
            part,
            partition,
            {spec.name: backends[spec.name] for spec in part.stores},
            clock,
            caught_up_to,
            {topic: positions[topic] for topic in part.inputs},
            set_aside,
        )
        for part in stage.parts
    ]
    return FusedTask(stage, parts, clock)


def _marked(output: Output, reader: Stage) -> Output:
    topic, to, records = output
    mark = taken_by(reader.name)
    return topic, to, [record._replace(headers=[*record.headers, mark]) for record in records]
