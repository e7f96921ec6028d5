"""A step whose outputs are refused: the guilty input is found, the others go on together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.counting import HUGE, counting_stage
from support.granting import Granting, granting_stage

from streams.errors import ConfigError, StageFailed
from streams.runtime.clock import SystemClock, VirtualClock
from streams.runtime.executor import Executor
from streams.runtime.fused_task import task_of
from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import Context, Processor, Record
from streams.runtime.stage import FusedStage, Stage
from streams.runtime.step import OutputRefused
from streams.runtime.task import Task
from streams.state.key_value import KeyValueBackend
from streams.state.memory import MemoryTables

RECORDS = 1_000


class Refusing:
    """`Transactions` of a broker that takes no large records; `taken` are the counts it took."""

    def __init__(self) -> None:
        self.asked = 0
        self.taken: list[tuple[int, bytes]] = []

    def commit(self, tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
        self.asked += 1
        outputs = [r for task in tasks for _, _, own in task.outputs for r in own]
        if any(len(record.value or b"") >= HUGE for record in outputs):
            raise OutputRefused("MSG_SIZE_TOO_LARGE")
        self.taken += [(r.partition, r.value or b"") for r in outputs if r.topic == "out"]
        for task in tasks:
            task.committed({spec.name: 1 for spec in task.stage.stores})


def task(partition: int, stage: Stage | None = None) -> Task:
    stage = stage or counting_stage()
    backends = {spec.name: KeyValueBackend(MemoryTables()) for spec in stage.stores}
    found = Task(stage, partition, backends, SystemClock(), lambda *_: True, {"in": 0})
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


class Taking(Refusing):
    """`Transactions` of a broker without a topic `nowhere`."""

    def commit(self, tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
        for task in tasks:
            for topic, _, own in task.outputs:
                if topic == "nowhere":
                    self.asked += 1
                    raise OutputRefused("UNKNOWN", (topic, own[0].key), missing=True)
        super().commit(tasks, alone=alone)


def waiting(partition: int, *guilty: int, verb: bytes = b"huge") -> list[Record]:
    return [
        Record("in", partition, n, 1, b"%03d" % n, verb if n in guilty else b"grant")
        for n in range(RECORDS)
    ]


@pytest.mark.parametrize("guilty", [(0,), (RECORDS - 1,), (17, 18, 700)])
def test_a_refused_initiated_output_is_found_in_tens_of_transactions(
    guilty: tuple[int, ...],
) -> None:
    tasks, broker = [task(0, granting_stage()), task(1, granting_stage())], Taking()
    batch = list(zip(tasks, [waiting(0, *guilty), waiting(1)], strict=True))
    Executor(broker).step(batch, tasks)
    for found, refused in zip(tasks, (len(guilty), 0), strict=True):
        said = [value for to, value in broker.taken if to == found.partition]
        assert said.count(b"accepted") == RECORDS
        assert said.count(b"granted") == RECORDS - refused
        assert said.count(b"refused") == refused
        assert (found.positions, found.poisoned, found.dirty) == ({"in": RECORDS}, 0, False)
    assert broker.asked < 5 + 13 * len(guilty)


def test_outputs_to_a_topic_that_is_gone_are_held_back_and_the_others_go_on() -> None:
    granting, broker = task(0, granting_stage()), Taking()
    work = waiting(0, *range(0, RECORDS, 2), verb=b"nowhere")
    Executor(broker).step([(granting, work)], [granting])
    said = [value for _, value in broker.taken]
    assert (said.count(b"accepted"), said.count(b"granted")) == (RECORDS, RECORDS // 2)
    assert broker.asked < 20
    asked = broker.asked
    Executor(broker).step([], [granting])
    assert broker.asked == asked, "what is held back is offered again"


def test_a_processor_that_drops_nothing_does_not_hold_up_the_step_for_ever() -> None:
    class Stubborn(Granting):
        def refused(self, *_: object) -> None: ...

    granting, broker = (
        task(0, Stage("granting", ("in",), granting_stage().stores, Stubborn)),
        Taking(),
    )
    Executor(broker).step([(granting, waiting(0, 0))], [granting])
    assert granting.positions == {"in": RECORDS}
    assert broker.asked < 16 * 13


def test_a_change_of_state_that_is_refused_without_an_output_ends_the_stage() -> None:
    class Writing(Granting):
        def initiate(self, ctx: Context, limit: int | None) -> None:
            ctx.store("keys").put(b"a", b"1")

    class Full(Taking):
        def commit(self, tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
            if any(task.changes for task in tasks):
                raise OutputRefused("granting.keys.changelog-0: MSG_SIZE_TOO_LARGE")

    granting = task(0, Stage("granting", ("in",), granting_stage().stores, Writing))
    with pytest.raises(StageFailed, match="a change of its state"):
        Executor(Full()).step([], [granting])


class Letterless(Refusing):
    """`Transactions` of a broker that takes no dead letter either."""

    def commit(self, tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
        if any(topic == "dlq" for task in tasks for topic, _, _ in task.outputs):
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


class Ticking(Processor):
    """Forwards a record at each punctuation."""

    def __init__(self, tick: bytes) -> None:
        self._tick = tick

    def process(self, record: Record, ctx: Context) -> None:
        raise AssertionError("no record comes")

    def punctuate(self, now: int, ctx: Context) -> None:
        ctx.forward("out", b"k", self._tick)


@pytest.mark.parametrize("fused", [False, True])
def test_a_refused_punctuation_undoes_those_of_no_other_partition(fused: bool) -> None:
    alone = Stage("ticking", ("in",), (), lambda n: Ticking(b"tick" if n else b"x" * HUGE))
    stage = FusedStage("pipeline", (alone,)) if fused else alone
    clock = VirtualClock(0)
    tasks = [task_of(stage, number, {}, clock, lambda *_: True, {"in": 0}) for number in (0, 1)]
    for each in tasks:
        each.restored()
    broker = Refusing()
    for _ in range(3):
        clock.ms += 1_000
        Executor(broker).step([], tasks)
    assert broker.taken == [(1, b"tick")] * 3


def test_a_refused_punctuation_of_a_slow_part_leaves_a_quick_one_its_time() -> None:
    slow = Stage("slow", ("a",), (), lambda _: Ticking(b"x" * HUGE), 1.0)
    quick = Stage("quick", ("b",), (), lambda _: Ticking(b"tick"), 0.05)
    clock = VirtualClock(0)
    fused = FusedStage("pipeline", (slow, quick))
    work = task_of(fused, 0, {}, clock, lambda *_: True, {"a": 0, "b": 0})
    work.restored()
    broker = Refusing()
    for _ in range(30):
        clock.ms += 100
        Executor(broker).step([], [work])
    assert len(broker.taken) == 27
