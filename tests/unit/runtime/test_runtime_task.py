"""A task: provisional until committed, as before after a rollback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from support.counting import Counting, counting_stage
from support.granting import Granting, granting_stage

from streams.errors import StageFailed, StoreDamaged, TidegateError
from streams.runtime.clock import Clock, SystemClock, VirtualClock
from streams.runtime.processor import Context, Record
from streams.runtime.stage import Stage
from streams.runtime.task import Task
from streams.state.key_value import KeyValueBackend
from streams.state.memory import MemoryTables
from streams.state.store import Checkpoint


def task(
    stage: Stage,
    clock: Clock | None = None,
    set_aside: frozenset[tuple[str, int, int]] = frozenset(),
) -> Task:
    backends = {spec.name: KeyValueBackend(MemoryTables()) for spec in stage.stores}
    clock = clock or SystemClock()
    return Task(stage, 0, backends, clock, lambda *_: True, {"in": 5}, set_aside)


def processor_of(granting: Task) -> Granting:
    processor: Any = granting._processor._processor
    assert isinstance(processor, Granting)
    return processor


def record(offset: int, value: bytes = b"count") -> Record:
    return Record("in", 0, offset, 1_000 + offset, b"a", value)


def test_a_rollback_leaves_a_task_as_after_its_last_commit() -> None:
    counting = task(counting_stage())
    counting.restored()
    counting.process([record(5)])
    counting.committed({"counts": 1})
    counting.process([record(6), record(7, b"poison")])
    assert counting.dirty
    counting.rollback()
    assert not counting.dirty
    assert counting.positions == {"in": 6}
    assert counting.ctx.stream_time == 1_005
    assert counting.ctx.outputs == []
    assert counting.stores["counts"].get(b"a") == b"1"


def test_a_quiet_task_commits_and_dates_its_stores_anew_four_times_a_day() -> None:
    """A store that is not dated is taken for one that missed deletions."""
    quarter = 21_600_000
    clock = VirtualClock(0)
    quiet = task(counting_stage(), clock)
    quiet.process([record(5)])
    quiet.committed({"counts": 9})
    backend = quiet.stores["counts"].backend
    clock.ms = quarter
    quiet.punctuate()
    assert not quiet.dirty
    quiet.committed({})
    assert backend.checkpoint() == Checkpoint(9, 0, 1_005)
    clock.ms = 2 * quarter + 1
    quiet.punctuate()
    assert quiet.dirty
    quiet.committed({})
    assert not quiet.dirty
    assert backend.checkpoint() == Checkpoint(9, clock.ms, 1_005)


def test_a_store_is_no_younger_than_the_work_that_was_committed() -> None:
    """The process may be frozen for days before it hears that it was, or before it writes so."""
    clock = VirtualClock(1_000)
    frozen = task(counting_stage(), clock)
    frozen.process([record(5)])
    clock.ms += 72 * 3_600_000
    frozen.committed({"counts": 9})
    backend = frozen.stores["counts"].backend
    assert backend.checkpoint() == Checkpoint(9, 1_000, 1_005)
    again = Task(frozen.stage, 0, {"counts": backend}, clock, lambda *_: True, {"in": 6})
    again.close()
    assert backend.checkpoint() == Checkpoint(9, 1_000, 1_005)
    assert again.dirty, "it does not date its store anew"


def test_what_changed_without_a_place_in_the_changelog_is_not_forgotten_in_silence() -> None:
    counting = task(counting_stage())
    counting.process([record(5)])
    with pytest.raises(KeyError, match="counts"):
        counting.committed({})


def test_nothing_reaches_the_backend_before_the_commit() -> None:
    counting = task(counting_stage())
    counting.restored()
    counting.process([record(5)])
    backend = counting.stores["counts"].backend
    assert backend.get(b"a") is None
    counting.committed({"counts": 9})
    assert backend.get(b"a") == b"1"
    checkpoint = backend.checkpoint()
    assert checkpoint is not None
    assert (checkpoint.offset, checkpoint.stream_time) == (9, 1_005)


@pytest.mark.parametrize("hook", ["punctuate", "initiate", "restored", "undone"])
def test_a_hook_that_raises_ends_the_stage(hook: str) -> None:
    """What stands in a store was accepted once: no record is to blame, and no retry helps."""

    class Raising(Granting):
        def raising(self, *_: object) -> None:
            raise OSError(24, "Too many open files")

    setattr(Raising, hook, Raising.raising)
    stage = Stage("granting", ("in",), granting_stage().stores, Raising)
    raising = task(stage)
    calls: dict[str, Callable[[], object]] = {
        "punctuate": raising.punctuate,
        "initiate": raising.initiate,
        "restored": raising.restored,
        "undone": raising.rollback,
    }
    with pytest.raises(StageFailed, match=rf"partition 0 \(`{hook}`\): OSError: .*Too many") as why:
        calls[hook]()
    assert "SET_ASIDE" not in str(why.value)


def test_a_batch_that_fails_names_its_record() -> None:
    class Together(Counting):
        def process_batch(self, records: Sequence[Record], ctx: Context) -> None:
            for each in records:
                self.process(each, ctx)

    together = task(Stage("counting", ("in",), counting_stage().stores, Together))
    together.restored()
    with pytest.raises(StageFailed, match=r"in-0@7: ZeroDivisionError.*SET_ASIDE=in:0:7,"):
        together.process([record(n, b"crash" if n == 7 else b"count") for n in range(5, 10)])


def test_a_damaged_store_ends_no_stage_and_costs_no_record() -> None:
    class Damaged(Counting):
        def process(self, record: Record, ctx: Context) -> None:
            raise StoreDamaged("told to")

    damaged = task(Stage("counting", ("in",), counting_stage().stores, Damaged))
    with pytest.raises(StoreDamaged):
        damaged.process([record(5)])
    assert not damaged.dirty


def test_what_is_undone_is_corrected_and_not_built_anew() -> None:
    granting = task(granting_stage())
    processor = processor_of(granting)
    granting.restored()
    granting.process([record(5, b"grant"), record(6, b"poison")])
    granting.rollback()
    granting.process([record(5, b"grant")])
    granting.committed({"keys": 1})
    granting.closed()
    assert processor.calls == ["restored", "complete", "undone", "undone", "committed", "closed"]
    assert (processor.waiting, processor.journal) == ({b"a": b"grant"}, set())


def test_a_long_build_goes_on_between_its_parts() -> None:
    granting = task(granting_stage())
    granting.restored()
    granting.process([Record("in", 0, n, 1, b"%d" % n, b"grant") for n in range(5)])
    granting.committed({"keys": 1})
    assert len(list(granting.restoring())) == 5


def test_what_an_operator_sets_aside_is_not_looked_at() -> None:
    counting = task(counting_stage(), set_aside=frozenset({("in", 0, 6), ("other", 0, 5)}))
    counting.restored()
    counting.process([record(5), record(6, b"crash"), record(7)])
    assert counting.positions == {"in": 8}
    assert [topic for topic, *_ in counting.ctx.outputs] == ["out", "dlq", "out"]


def test_a_processor_that_writes_while_restoring_is_stopped() -> None:
    class Writing(Counting):
        def restored(self, ctx: Context) -> None:
            ctx.store("counts").put(b"a", b"1")

    with pytest.raises(TidegateError, match="restored"):
        task(Stage("counting", ("in",), counting_stage().stores, Writing)).restored()
