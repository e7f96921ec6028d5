"""A task: provisional until committed, as before after a rollback."""

from __future__ import annotations

import pytest
from counting import Counting, counting_stage

from streams.errors import TidegateError
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.driver import VirtualClock
from streams.runtime.processor import Context, Record, Stage
from streams.runtime.task import Task
from streams.state.key_value import KeyValueBackend
from streams.state.memory import MemoryTables
from streams.state.store import Checkpoint


def task(stage: Stage, clock: Clock | None = None) -> Task:
    backends = {"counts": KeyValueBackend(MemoryTables())}
    return Task(stage, 0, backends, clock or SystemClock(), lambda *_: True, {"in": 5})


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


def test_a_punctuation_that_raises_is_undone() -> None:
    class Raising(Counting):
        def punctuate(self, now: int, ctx: Context) -> None:
            ctx.store("counts").put(b"z", b"1")
            ctx.forward("out", b"z", b"1")
            raise RuntimeError

    raising = task(Stage("counting", ("in",), counting_stage().stores, Raising))
    raising.punctuate()
    assert not raising.dirty


def test_a_processor_that_writes_while_restoring_is_stopped() -> None:
    class Writing(Counting):
        def restored(self, ctx: Context) -> None:
            ctx.store("counts").put(b"a", b"1")

    with pytest.raises(TidegateError, match="restored"):
        task(Stage("counting", ("in",), counting_stage().stores, Writing)).restored()
