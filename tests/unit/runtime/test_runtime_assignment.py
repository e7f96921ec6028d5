"""Taking partitions up: in which order Kafka is asked, and how a restore tells its progress."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from prometheus_client import REGISTRY
from structlog.testing import capture_logs
from support.counting import Counting, counting_stage, counting_topology

from streams.errors import Fenced, StoreDamaged
from streams.kafka import offsets
from streams.process import standstill
from streams.process.standstill import Standstill
from streams.runtime import assignment, restore
from streams.runtime import loop as loop_module
from streams.runtime.assignment import Assignment
from streams.runtime.backends import backend_for
from streams.runtime.clock import SystemClock
from streams.runtime.doubted_ends import DoubtedEnds, EndDoubted
from streams.runtime.loop import StageLoop
from streams.runtime.processor import Context, Record
from streams.runtime.restore import Restore
from streams.runtime.restoring_store import Restoring
from streams.runtime.stage import Stage, StoreSpec
from streams.runtime.state_directory import StateDirectory
from streams.runtime.task import Task
from streams.runtime.topics import Changelog
from streams.settings import Settings
from streams.state.memory import MemoryTables
from streams.state.store import Checkpoint

CHANGELOG = Changelog("counting.counts.changelog", "id", 86_400_000)
Place = tuple[str, int]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Kafka was asked, in order; changelogs begin at 0 and end at 100."""
    calls: list[str] = []

    def request(_admin: Any, _prefix: str, places: Iterable[Place], spec: Any, _: float) -> Any:
        kind = "ends" if spec == "latest" else "starts"
        answers: dict[Place, Future[Any]] = {}
        for place in places:
            calls.append(f"{kind} of {place[0]}")
            answers[place] = Future()
            answers[place].set_result(SimpleNamespace(offset=100 if kind == "ends" else 0))
        return answers

    for module in (offsets, restore):
        monkeypatch.setattr(module, "request_offsets", request)
    for module in (assignment, restore):
        monkeypatch.setattr(module, "earliest", lambda: "earliest")
    monkeypatch.setattr(restore, "latest", lambda: "latest")
    monkeypatch.setattr(restore, "Consumer", Consumer)
    return calls


class Consumer:
    """Hands out changelog records of partition 0, in order, until its own end."""

    def __init__(self, config: Any) -> None:
        self.at = 0

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self.at = places[0].offset

    def consume(self, number: int, timeout: float) -> list[Any]:
        first, self.at = self.at, min(100, self.at + number)
        return [message(offset) for offset in range(first, self.at)]

    def position(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(p.topic, p.partition, self.at) for p in places]

    def close(self) -> None: ...


def message(offset: int) -> Any:
    return SimpleNamespace(
        topic=lambda: CHANGELOG.topic,
        partition=lambda: 0,
        error=lambda: None,
        key=lambda: b"%03d" % offset,
        value=lambda: b"1",
        timestamp=lambda: (1, 1_000 + offset),
    )


def offsets_of(start: int, end: int) -> Any:
    """Stands for `request_offsets` from now on."""

    def request(_admin: Any, _prefix: str, places: Iterable[Place], spec: Any, _: float) -> Any:
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(offset=end if spec == "latest" else start))
        return dict.fromkeys(places, answer)

    return request


def restore_of(store: Restoring, doubted: DoubtedEnds | None = None) -> Restore:
    return Restore([store], None, "", {}, 0, doubted or DoubtedEnds())  # type: ignore[arg-type]


class Source:
    partitions = frozenset({0})
    delivering: frozenset[int] = frozenset()
    changed = joining = True

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    def committed(self, partitions: Sequence[int], timeout: float) -> dict[Place, int]:
        self.asked.append("committed")
        return {("in", 0): 7}

    def hold_back(self, positions: Mapping[Place, int]) -> None:
        assert not positions

    def to_start_again(self) -> list[Place]:
        return []

    def join_anew(self) -> None: ...

    def own(self, partitions: Collection[int]) -> None: ...

    def take_again(self) -> None: ...


def loop_with(source: Any, asked: list[str], tmp_path: Path) -> Any:
    settings = Settings(bootstrap="127.0.0.1:1", data_dir=tmp_path)
    loop: Any = StageLoop(counting_stage(), counting_topology(), settings, threading.Event())
    loop._source, loop._topics, loop._admin = source, None, None
    loop._transactions = SimpleNamespace(settle=lambda: asked.append("settle"))
    loop._ends = SimpleNamespace(assign=lambda inputs: None)
    loop._unowned = SimpleNamespace(claim=lambda joining, join_anew: None)
    loop._assignment = Assignment(
        counting_stage(),
        source,
        None,  # type: ignore[arg-type]
        "",
        StateDirectory(settings, "counting", 2),
        {CHANGELOG.topic: CHANGELOG},
        {},
        SystemClock(),
        lambda *_: True,
    )
    return loop


def test_open_transactions_are_settled_then_offsets_then_ends(
    asked: list[str], tmp_path: Path
) -> None:
    """The other way round, a commit in between would be in the offsets but not in the stores."""
    loop = loop_with(Source(asked), asked, tmp_path)
    loop._change()
    changelog = CHANGELOG.topic
    assert asked == [
        "settle",
        "committed",
        "starts of in",
        f"starts of {changelog}",
        f"ends of {changelog}",
    ]
    assert not loop._source.changed
    while not (ready := loop._assignment.advance()):
        pass
    assert ready[0].positions == {"in": 7}
    loop._assignment.close()


def test_what_is_restored_counts_as_not_processed(asked: list[str], tmp_path: Path) -> None:
    """Nobody else processes it: without it a stage that restores for an hour is never behind."""
    source = Source(asked)
    loop = loop_with(source, asked, tmp_path)
    measured: list[list[Place]] = []
    loop._ends = SimpleNamespace(assign=measured.append)
    loop._change()
    assert measured[-1] == [("in", 0)]
    assert loop._assignment.position("in", 0) == 7
    while not loop._assignment.advance():
        pass
    source.position = lambda topic, partition: 9  # type: ignore[attr-defined]
    assert loop._assignment.position("in", 0) == 9
    assert loop._assignment.inputs == [("in", 0)]
    source.partitions, source.changed = frozenset(), True
    loop._change()
    assert measured[-1] == []


class Building(Counting):
    """Builds what it derives in parts, each as long as the runtime gives it at once."""

    parts = 0
    events: list[str] = []  # noqa: RUF012

    def restored(self, ctx: Context) -> Iterator[None]:  # type: ignore[override]
        try:
            for _ in range(self.parts):
                self.events.append("part")
                yield
            self.events.append("built")
        finally:
            self.events.append("ended")

    def closed(self) -> None:
        self.events.append("closed")


def building_loop(
    parts: int, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.setattr(assignment, "_PART_SECONDS", 0)
    monkeypatch.setattr(Building, "parts", parts)
    monkeypatch.setattr(Building, "events", [])
    loop = loop_with(Source(asked), asked, tmp_path)
    stage = counting_stage()
    loop._assignment._stage = Stage(stage.name, stage.inputs, stage.stores, Building)
    return loop


def test_a_long_build_is_driven_in_parts_while_polling_goes_on(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = building_loop(5, asked, tmp_path, monkeypatch)
    rounds: list[float] = []
    started: list[dict[Place, int]] = []
    loop._source.joining = False

    def read(patience: float) -> list[Record]:
        rounds.append(patience)
        return []

    loop._source.read = read
    loop._source.start = started.append
    loop._lag = SimpleNamespace(measure=lambda records: None)
    loop._executor = SimpleNamespace(step=lambda *_: None)
    while not started:
        assert not loop._assignment.tasks
        loop._round()
    assert Building.events == ["part"] * 5 + ["built", "ended"]
    assert len(rounds) > 5
    assert set(rounds[1:]) == {0}, "it waits for records meanwhile"
    assert started == [{("in", 0): 7}]
    loop._assignment.close()
    assert Building.events[-1] == "closed"


def test_a_partition_that_is_taken_away_drops_its_build(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = building_loop(1_000, asked, tmp_path, monkeypatch)
    loop._change()
    while not Building.events:
        assert loop._assignment.advance() == []
    loop._source.partitions, loop._source.changed = frozenset(), True
    loop._change()
    assert Building.events[-2:] == ["ended", "closed"]
    assert not loop._assignment.restoring
    loop._assignment.begin([0])  # its stores can be opened again
    loop._assignment.close()


def test_what_is_taken_away_is_closed_even_where_kafka_does_not_answer(
    asked: list[str], tmp_path: Path
) -> None:
    source = Source(asked)
    loop = loop_with(source, asked, tmp_path)
    loop._change()
    while not loop._assignment.advance():
        pass
    source.partitions = frozenset()

    def silent() -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    loop._transactions.settle = silent
    loop._change()
    assert loop._assignment.tasks == {}


def test_committed_state_may_be_read_from_the_opening_of_a_task_until_its_closing(
    asked: list[str], tmp_path: Path
) -> None:
    source = Source(asked)
    loop = loop_with(source, asked, tmp_path)
    told: list[object] = []
    loop._assignment._link = SimpleNamespace(
        opened=lambda partition, stores: told.append((partition, stores["counts"].get(b"000"))),
        closing=told.append,
    )
    loop._change()
    while not (ready := loop._assignment.advance()):
        assert told == []
    (task,) = ready

    def closing() -> None:
        told.append("close")
        Task.close(task)

    task.close = closing
    source.partitions = frozenset()
    loop._change()
    assert told == [(0, b"1"), 0, "close"]


def test_what_was_read_before_a_task_starts_is_not_its_own(
    asked: list[str], tmp_path: Path
) -> None:
    """A partition may deliver on while its task is opened anew; its start names the offset."""
    source = Source(asked)
    loop = loop_with(source, asked, tmp_path)
    stale = Record("in", 0, 99, 1, b"a", b"count")
    started: list[dict[Place, int]] = []
    worked: list[Any] = []
    source.joining = False
    source.read = lambda patience: [stale]  # type: ignore[attr-defined]
    source.start = started.append  # type: ignore[attr-defined]
    loop._lag = SimpleNamespace(measure=lambda records: None)
    loop._executor = SimpleNamespace(step=lambda batch, *_: worked.extend(batch))
    counted = processed()
    while not started:
        loop._round()
    assert worked == []
    assert processed() == counted
    assert started == [{("in", 0): 7}]
    loop._assignment.close()


def test_what_was_taken_away_is_not_rewound(asked: list[str], tmp_path: Path) -> None:
    """A commit reads ahead, and may hear there that a partition is another's by now."""
    source = Source(asked)
    loop = loop_with(source, asked, tmp_path)
    started: list[dict[Place, int]] = []
    rolled_back: list[int] = []
    loop._assignment.tasks = {
        p: SimpleNamespace(
            partition=p, positions={"in": 5}, rollback=lambda p=p: rolled_back.append(p)
        )
        for p in (0, 1)
    }
    source.delivering = frozenset({1})
    source.start = started.append  # type: ignore[attr-defined]
    loop._rewind()
    assert rolled_back == [0, 1]
    assert started == [{("in", 1): 5}]


def test_what_was_taken_away_while_it_was_restored_is_not_started(
    asked: list[str], tmp_path: Path
) -> None:
    """Started, it would look like one that was kept, and be processed by two."""
    source = Source(asked)
    loop = loop_with(source, asked, tmp_path)
    started: list[dict[Place, int]] = []
    source.joining = False
    source.start = started.append  # type: ignore[attr-defined]
    loop._change()
    source.partitions, source.changed = frozenset(), True  # heard of while reading ahead
    loop._restore()
    loop._restore()
    assert loop._assignment.restoring
    loop._change()
    assert not loop._assignment.restoring
    assert started == []


def test_a_restore_that_is_given_up_leaves_nothing_to_restore(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has the partition now: this one must not raise an alarm for ever."""
    for bound in ("_READ", "_MOST"):
        monkeypatch.setattr(restore, bound, 40)
    source = Source(asked)
    loop = loop_with(source, asked, tmp_path)
    loop._change()
    loop._restore()

    def left(what: str) -> float | None:
        name = f"tidegate_stage_restore_{what}_left"
        return REGISTRY.get_sample_value(name, {"stage": "counting"})

    assert left("records") == 60
    source.partitions, source.changed = frozenset(), True
    loop._change()
    assert (left("records"), left("seconds")) == (0, 0)


def test_it_is_ready_once_it_was_assigned_and_has_restored(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("_READ", "_MOST"):
        monkeypatch.setattr(restore, bound, 40)
    source = Source(asked)
    loop = loop_with(source, asked, tmp_path)
    source.start = lambda positions: None  # type: ignore[attr-defined]
    loop._outage.answered()
    told = []
    for source.joining, source.changed in ((True, False), (False, True), (False, False)):
        loop._restore()
        told.append(loop.ready())
    loop._change()
    told.append(loop.ready())
    while loop._assignment.restoring:
        told.append(loop.ready())
        loop._restore()
    assert not any(told[:2])
    assert told[2]
    assert told[3:] == [False] * len(told[3:])
    assert len(told) > 5, "it was restored at once"
    assert loop.ready()
    loop._assignment.close()


@pytest.mark.parametrize(("joining", "rejoins"), [(True, False), (False, True), (False, False)])
def test_who_is_fenced_while_it_joins_joins_again(
    asked: list[str], tmp_path: Path, joining: bool, rejoins: bool
) -> None:
    """A broker that restarts forgets it, one that it did not answer in time gave it up."""

    def read(patience: float) -> list[Record]:
        raise Fenced("by another member id")

    source: Any = Source(asked)
    loop = loop_with(source, asked, tmp_path)
    source.read, source.rejoin = read, lambda: asked.append("rejoin")
    source.joining, source.rejoins = joining, rejoins
    loop._stop.set()  # no pause
    with nullcontext() if joining or rejoins else pytest.raises(Fenced):
        assert loop._read() == []
    assert ("rejoin" in asked) == (joining or rejoins)


def processed() -> float:
    return REGISTRY.get_sample_value("tidegate_stage_records_total", {"stage": "counting"}) or 0


def test_a_restore_tells_what_is_left_in_records_and_seconds(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 50.0
    monkeypatch.setattr(restore, "_READ", 5)
    monkeypatch.setattr(restore, "_MOST", 25)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    backend = backend_for(StoreSpec("counts", CHANGELOG.topic), MemoryTables())
    restoring = restore_of(Restoring("counts", 0, backend, CHANGELOG))
    assert (restoring.left, restoring.seconds_left) == (100, math.inf)
    now += 6
    with capture_logs() as logs:
        assert not restoring.advance(0)
        now += 2
        assert not restoring.advance(0)
    assert (restoring.left, restoring.seconds_left) == (50, 8)
    assert [(e["event"], e["records_left"], e["seconds_left"]) for e in logs] == [
        ("restoring", 75, 18.0)
    ]
    assert not restoring.advance(0)
    assert restoring.advance(0)
    assert (restoring.left, restoring.seconds_left) == (0, 0)
    assert backend.get(b"099") == b"1"


def test_a_part_of_a_restore_ends_also_where_one_key_is_told_again_and_again(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile nobody polls, and the partitions that run wait."""
    consume = Consumer.consume
    monkeypatch.setattr(
        Consumer, "consume", lambda *asked_for: [message(0) for _ in consume(*asked_for)]
    )
    monkeypatch.setattr(restore, "_READ", 5)
    monkeypatch.setattr(restore, "_MOST", 25)
    backend = backend_for(StoreSpec("counts", CHANGELOG.topic), MemoryTables())
    restoring = restore_of(Restoring("counts", 0, backend, CHANGELOG))
    assert not restoring.advance(0)
    assert restoring.left == 75
    assert backend.get(b"000") == b"1"


def test_what_could_not_be_read_is_read_again_from_what_is_folded_in(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumer's position is behind it: a checkpoint there would leave it out for ever.

    A second passes before it is read again: a broker would give a damaged batch at each request.
    """
    now = 1000.0
    reads = 0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    damaged = [17, 17]

    def consume(self: Consumer, number: int, timeout: float) -> list[Any]:
        nonlocal reads
        reads += 1
        messages = Consumer.consume(self, number, timeout)
        if damaged and any(m.key() == b"%03d" % damaged[0] for m in messages):
            damaged.pop()
            error = KafkaError(KafkaError._BAD_MSG, "checksum")
            messages[-1] = SimpleNamespace(**{**vars(messages[-1]), "error": lambda: error})
        return messages

    monkeypatch.setattr(restore, "Consumer", type("Damaging", (Consumer,), {"consume": consume}))
    monkeypatch.setattr(restore, "_READ", 5)
    monkeypatch.setattr(restore, "_MOST", 10)
    backend = backend_for(StoreSpec("counts", CHANGELOG.topic), MemoryTables())
    store = Restoring("counts", 0, backend, CHANGELOG)
    restoring = restore_of(store)
    assert not restoring.advance(0)
    with capture_logs() as logs:
        for _ in range(2):
            assert not restoring.advance(0)
            assert (restoring.left, store.unread) == (90, {})
            told = reads
            for wait in (0.75, 0.25):
                now += wait
                assert not restoring.advance(0)
                assert reads == told
    assert [(e["event"], e["error"]) for e in logs] == [
        ("changelog cannot be read: trying on", "checksum")
    ]
    while not restoring.advance(0):
        pass
    assert len(list(backend.range(b"", b"\xff"))) == 100


@pytest.mark.parametrize("where", ["_refuse_other_layout", "_round"])
def test_a_loop_whose_client_never_answers_ends_its_process(
    where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At its start, too, where it asks who else has its positions."""
    monkeypatch.setattr(standstill, "_TICK_SECONDS", 0.1)
    for name in ("admin_client", "Topics", "refuse_left"):
        monkeypatch.setattr(loop_module, name, lambda *_: None)
    monkeypatch.setattr(loop_module, "await_topics", lambda *_: {})
    clock = SimpleNamespace(awaited=lambda _: True, check=lambda: None)
    monkeypatch.setattr(loop_module, "broker_clock", lambda *_: nullcontext(clock))
    codes: list[int] = []
    ended = threading.Event()

    def exit_process(code: int) -> None:
        codes.append(code)
        ended.set()

    def hang() -> None:
        assert ended.wait(60), "nobody noticed"
        loop._stop.set()

    loop = loop_with(SimpleNamespace(close=lambda: None), [], tmp_path)
    loop._standstill = Standstill(1.0, exit_process)
    for name in ("_connect", "_refuse_other_layout", "_round"):
        setattr(loop, name, lambda *_: None)
    setattr(loop, where, hang)
    loop.run()
    assert codes[0] == os.EX_SOFTWARE


def old_store(directory: StateDirectory, partition: int) -> Path:
    """Holds half of its changelog, and was written 13 hours ago by the file system's clock."""
    store = directory.open(counting_stage().stores[0], partition, CHANGELOG)
    store.write({b"000": b"1"}, Checkpoint(50, SystemClock().now()))
    store.close()
    path, at = directory.path("counts", partition), time.time() - 13 * 3_600
    for file in path.iterdir():
        os.utime(file, (at, at))
    return path


def test_stores_that_partitions_left_long_ago_are_deleted_before_others_are_opened(
    asked: list[str], tmp_path: Path
) -> None:
    """A disk that they have filled would end each start there."""
    loop = loop_with(Source(asked), asked, tmp_path)
    own, moved = (old_store(loop._assignment._directory, partition) for partition in (0, 1))
    loop._change()
    assert (own.exists(), moved.exists()) == (True, False)
    assert loop._assignment._restore.left == 50, "what is assigned is not begun anew"
    loop._assignment.close()


def test_stores_that_partitions_left_long_ago_are_deleted_once_an_hour(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, now = Source(asked), time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    loop = loop_with(source, asked, tmp_path)
    source.joining = False
    source.read = lambda patience: []  # type: ignore[attr-defined]
    source.start = lambda positions: None  # type: ignore[attr-defined]
    loop._lag = SimpleNamespace(measure=lambda records: None)
    loop._executor = SimpleNamespace(step=lambda *_: None)
    while not loop._assignment.tasks:
        loop._round()
    own = loop._assignment._directory.path("counts", 0)
    for _ in range(2):
        moved = old_store(loop._assignment._directory, 1)
        loop._round()
        assert moved.exists(), "each round looks at every file"
        now += 3_601
        for file in own.iterdir():
            os.utime(file, (0, 0))
        loop._round()
        assert not moved.exists()
        assert list(own.iterdir()), "the store of a partition that runs here"
    loop._assignment.close()


def test_a_store_that_is_damaged_again_and_again_is_rebuilt_with_pauses(
    asked: list[str], tmp_path: Path
) -> None:
    source, paused = Source(asked), []
    loop = loop_with(source, asked, tmp_path)
    source.read = lambda patience: []  # type: ignore[attr-defined]
    loop._pause = lambda: paused.append(1)

    def damaged(records: list[Record]) -> None:
        raise StoreDamaged("its MANIFEST ends within a record")

    loop._turn, source.changed = damaged, False
    loop._round()
    assert (source.changed, paused) == (True, [1])


@pytest.fixture
def ahead() -> Restoring:
    """A store that has one record more than the changelog, whose end is 100."""
    backend = backend_for(StoreSpec("counts", CHANGELOG.topic), MemoryTables())
    backend.write({b"000": b"1"}, Checkpoint(101, 0))
    return Restoring("counts", 0, backend, CHANGELOG)


def test_an_end_before_what_a_store_has_is_asked_again_for_a_minute(
    asked: list[str], ahead: Restoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then its broker has lost the rest, and the store begins anew."""
    now, doubted = 50.0, DoubtedEnds()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with capture_logs() as logs:
        for _ in range(4):
            with pytest.raises(EndDoubted):
                restore_of(ahead, doubted)
            now += 19.9
    assert ahead.backend.checkpoint() == Checkpoint(101, 0)
    assert [(e["checkpoint"], e["end"]) for e in logs] == [(101, 100)], "told once"
    now += 1
    assert restore_of(ahead, doubted).left == 100
    assert ahead.backend.get(b"000") is None
    ahead.backend.write({}, Checkpoint(101, 0))
    with pytest.raises(EndDoubted):
        restore_of(ahead, doubted)  # another time, another minute


def test_the_end_that_a_deposed_leader_gave_costs_no_store_and_ends_no_restore_short(
    asked: list[str], ahead: Restoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubted = DoubtedEnds()
    with pytest.raises(EndDoubted):
        restore_of(ahead, doubted)

    monkeypatch.setattr(restore, "request_offsets", offsets_of(0, 120))
    assert restore_of(ahead, doubted).left == 19
    assert ahead.backend.get(b"000") == b"1"


def test_a_doubt_is_forgotten_with_its_partition(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, now = Source(asked), time.monotonic()
    loop = loop_with(source, asked, tmp_path)
    loop._pause = lambda *_: False
    store = loop._assignment._directory.open(counting_stage().stores[0], 0, CHANGELOG)
    store.write({}, Checkpoint(101, SystemClock().now()))
    store.close()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for source.partitions in (frozenset({0}), frozenset(), frozenset({0})):
        loop._change()
        now += 61
    assert not loop._assignment.restoring
    loop._change()
    assert loop._assignment.restoring, "it was asked again for long enough"
    loop._assignment.close()


def test_a_restore_does_not_wait_for_what_retention_deletes_meanwhile(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its consumer finds the new start, reads nothing there, and so has no position."""
    now = 50.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(Consumer, "consume", lambda *_: [])
    monkeypatch.setattr(
        Consumer, "position", lambda _, places: [TopicPartition(p.topic, 0) for p in places]
    )
    backend = backend_for(StoreSpec("counts", CHANGELOG.topic), MemoryTables())
    restoring = restore_of(Restoring("counts", 0, backend, CHANGELOG))
    for start, left in ((0, 100), (0, 100), (40, 100), (100, 60), (100, 0)):
        monkeypatch.setattr(restore, "request_offsets", offsets_of(start, 100))
        now += 5
        assert not restoring.advance(0)
        assert restoring.left == left
    assert restoring.advance(0)
    found = backend.checkpoint()
    assert found is not None
    assert found.offset == 100
