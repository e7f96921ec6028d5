"""A step whose outputs are refused: the guilty input is found, the others go on together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from counting import HUGE, counting_stage

from streams.errors import ConfigError
from streams.runtime.clock import SystemClock
from streams.runtime.executor import Executor, OutputRefused
from streams.runtime.processor import Record
from streams.runtime.task import Task
from streams.state.key_value import KeyValueBackend
from streams.state.memory import MemoryTables

RECORDS = 1_000


class Refusing:
    """`Transactions` of a broker that takes no large records; `taken` are the counts it took."""

    def __init__(self) -> None:
        self.asked = 0
        self.taken: list[tuple[int, bytes]] = []

    def commit(self, tasks: Sequence[Task], *, alone: bool = False) -> None:
        self.asked += 1
        outputs = [r for task in tasks for _, _, own in task.ctx.outputs for r in own]
        if any(len(record.value or b"") >= HUGE for record in outputs):
            raise OutputRefused("MSG_SIZE_TOO_LARGE")
        self.taken += [(r.partition, r.value or b"") for r in outputs if r.topic == "out"]
        for task in tasks:
            task.committed({"counts": 1})


def task(partition: int) -> Task:
    backends = {"counts": KeyValueBackend(MemoryTables())}
    found = Task(counting_stage(), partition, backends, SystemClock(), lambda *_: True, {"in": 0})
    found.restored()
    return found


def records(partition: int, *guilty: int) -> list[Record]:
    return [
        Record("in", partition, n, 1_000 + n, b"a", b"huge" if n in guilty else b"count")
        for n in range(RECORDS)
    ]


@pytest.mark.parametrize("guilty", [(0,), (RECORDS - 1,), (17, 18, 700)])
def test_a_refused_record_costs_tens_of_transactions_whatever_the_batch(
    guilty: tuple[int, ...],
) -> None:
    tasks, broker = [task(0), task(1)], Refusing()
    batch = list(zip(tasks, [records(0, *guilty), records(1)], strict=True))
    Executor(broker).step(batch, tasks)
    for found, poisoned in zip(tasks, (len(guilty), 0), strict=True):
        counts = [value for to, value in broker.taken if to == found.partition]
        assert counts == [b"%d" % n for n in range(1, RECORDS - poisoned + 1)]
        assert found.positions == {"in": RECORDS}
        assert (found.poisoned, found.dirty) == (poisoned, False)
    assert broker.asked < 26 * len(guilty)


class Letterless(Refusing):
    """`Transactions` of a broker that takes no dead letter either."""

    def commit(self, tasks: Sequence[Task], *, alone: bool = False) -> None:
        if any(topic == "dlq" for task in tasks for topic, _, _ in task.ctx.outputs):
            raise OutputRefused("dlq-0: UNKNOWN_TOPIC_OR_PART")
        super().commit(tasks, alone=alone)


@pytest.mark.parametrize("verb", [b"huge", b"poison"])
def test_a_dead_letter_that_nobody_takes_ends_the_stage_and_passes_nothing_by(verb: bytes) -> None:
    counting, broker = task(0), Letterless()
    work = [Record("in", 0, n, 1_000 + n, b"a", v) for n, v in enumerate([b"count", verb])]
    with pytest.raises(ConfigError, match=r"dead letter of in-0 at 1 \(dlq-0: UNKNOWN_TOPIC"):
        Executor(broker).step([(counting, work)], [])
    assert broker.taken == [(0, b"1")]
    assert (counting.positions, counting.dirty) == ({"in": 1}, False)
