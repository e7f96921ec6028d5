"""`TopologyTestDriver`: stages and their whole flow in memory, on a virtual clock.

It runs the same tasks and the same executor as production. Only topics are lists here, and a
transaction is one append to several of them. So state, poison records, savepoints, changelog
restore and crashes between the steps of a commit behave as they do on a broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import cast

from streams.errors import StageFailed
from streams.runtime.backends import backend_for, fold
from streams.runtime.executor import Executor, by_task
from streams.runtime.fused_task import FusedTask, task_of
from streams.runtime.memory_broker import Crashed, CrashPoint, MemoryBroker, MemoryTransactions
from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import AnyStage, Header, Record, StoreSpec, parts_of
from streams.runtime.task import Task
from streams.state.memory import MemoryTables
from streams.state.store import Backend, Changes, Checkpoint, KeyValueStore, Tables
from streams.topology.model import Topology

START_MS = 1_750_000_000_000
_MOST_STEPS = 2_000
_BATCH = 10_000

Offsets = Mapping[tuple[str, int], int]
"""(logical topic, partition) to the next offset."""

OpenTables = Callable[[str, str, int], Tables]
"""(stage, store, partition) to its tables, in the state in which they were last closed."""


class VirtualClock:
    """`Clock` that stands still until it is moved."""

    def __init__(self, start_ms: int) -> None:
        self.ms = float(start_ms)

    def now(self) -> int:
        return int(self.ms)

    def monotonic(self) -> float:
        return self.ms / 1000


class _Watched:
    """A backend that reports each write, so that a process can die between two."""

    def __init__(self, backend: Backend, written: Callable[[], None]) -> None:
        self.get, self.get_many, self.range = backend.get, backend.get_many, backend.range
        self.checkpoint, self.wipe, self.close = backend.checkpoint, backend.wipe, backend.close
        self.to_changelog, self.from_changelog = backend.to_changelog, backend.from_changelog
        self._backend, self._written = backend, written

    def write(self, changes: Changes, checkpoint: Checkpoint) -> None:
        self._backend.write(changes, checkpoint)
        self._written()


class StageRun:
    """One stage's process: its disk survives a crash, its tasks do not."""

    def __init__(
        self,
        stage: AnyStage,
        broker: MemoryBroker,
        clock: VirtualClock,
        unread: set[str],
        set_aside: set[tuple[str, int, int]],
        open_tables: OpenTables,
        offsets: dict[tuple[str, int], int],
    ) -> None:
        self.stage = stage
        self.offsets = offsets
        self._broker, self._clock = broker, clock
        self._unread = unread
        self._set_aside = set_aside
        self._open = open_tables
        self._tables: list[Tables] = []
        self.commits = MemoryTransactions(broker, offsets)
        self._executor = Executor(self.commits)
        self.tasks: dict[int, PartitionTask] = {}
        self.due_ms = 0.0
        self._failed = False
        self.start()

    def start(self) -> None:
        """Restore every store from its changelog, then the processors."""
        self._close_tables()
        self._failed = False
        self.tasks = {p: self._task(p) for p in range(self._broker.width(self.stage.inputs[0]))}
        for task in self.tasks.values():
            task.restored()
        self.due_ms = self._clock.ms + self.stage.punctuate_seconds * 1000

    def wipe(self) -> None:
        for tables in self._tables:
            tables.wipe()

    def close(self) -> None:
        for task in self.tasks.values():
            task.closed()
        self._close_tables()

    def unprocessed(self) -> list[Record]:
        found: list[Record] = []
        for (topic, partition), log in self._broker.records.items():
            if topic in self.stage.inputs and partition in self.tasks:
                position = self.tasks[partition].positions[topic]
                found += log[position : position + _BATCH]
        return found

    def step(self, *, punctuate: bool) -> bool:
        """Process and punctuate once; whether there was anything to process."""
        if self._failed:
            self.start()
        records = self.unprocessed()
        due = list(self.tasks.values()) if punctuate else []
        try:
            self._executor.step(by_task(self.tasks, records), due)
        except Crashed:
            self.start()
        except StageFailed:
            self._failed = True
            raise
        return bool(records)

    def _close_tables(self) -> None:
        while self._tables:
            self._tables.pop().close()

    def _task(self, partition: int) -> PartitionTask:
        backends = {spec.name: self._restore(spec, partition) for spec in self.stage.stores}
        positions = {t: self.offsets.get((t, partition), 0) for t in self.stage.inputs}
        return task_of(
            self.stage, partition, backends, self._clock,
            lambda topic, _partition, _moment: topic not in self._unread, positions,
            self._set_aside,
        )  # fmt: skip

    def _restore(self, spec: StoreSpec, partition: int) -> Backend:
        part = next(part for part in parts_of(self.stage) if spec in part.stores)
        self._tables.append(self._open(part.name, spec.name, partition))
        backend = backend_for(spec, self._tables[-1])
        checkpoint = backend.checkpoint()
        log = self._broker.records[spec.changelog, partition]
        unread = log[checkpoint.offset if checkpoint else 0 :]
        changes = backend.from_changelog((r.key or b"", r.value) for r in unread)
        newest = max((r.timestamp for r in unread), default=0)
        fold(backend, changes, newest, len(log), self._clock.now())
        return _Watched(backend, lambda: self.commits.passed("between_writes"))


class TopologyTestDriver:
    """Feeds records to stages and shows what they did.

    Forwarded records flow on to every stage that reads their topic before `pipe` and `advance`
    return. Both raise `StageFailed` where a stage ends; the next step starts it again. A topic has
    the partitions that its topology gives it, or `partitions` if it shares the topology's number.
    `unread` names inputs for which `caught_up_to` answers False, and `set_aside` the records
    (topic, partition, offset) that go to `dlq` unprocessed. Stores are kept in memory unless
    `open_tables` opens others.
    """

    def __init__(
        self,
        stages: Sequence[AnyStage],
        topology: Topology,
        partitions: int | None = None,
        open_tables: OpenTables | None = None,
    ) -> None:
        self._clock = VirtualClock(START_MS)
        self._broker = MemoryBroker(topology, partitions, self._clock)
        self.unread: set[str] = set()
        self.set_aside: set[tuple[str, int, int]] = set()
        self._held = False
        kept: dict[tuple[str, str, int], Tables] = defaultdict(MemoryTables)
        self._open_tables = open_tables or (lambda *place: kept[place])
        self._runs = {stage.name: self._run(stage) for stage in stages}

    @property
    def now(self) -> int:
        """The virtual wall clock, milliseconds since the epoch."""
        return self._clock.now()

    def pipe(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = 0,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
    ) -> None:
        """Append a record, at the virtual clock's time unless one is given, and let it flow."""
        at = self.now if timestamp is None else timestamp
        log = self._broker.records[topic, partition]
        log.append(Record(topic, partition, len(log), at, key, value, list(headers)))
        if not self._held:
            self._flow()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Process everything piped inside as one batch, at the end."""
        self._held = True
        yield
        self._held = False
        self._flow()

    def advance(self, seconds: float) -> None:
        """Move the clock, punctuating each stage at its own pace; long spans in bigger steps."""
        end, coarse = self._clock.ms + seconds * 1000, seconds * 1000 / _MOST_STEPS
        while (due := min((run.due_ms for run in self._runs.values()), default=end)) <= end:
            self._clock.ms = max(self._clock.ms, due)
            for run in self._runs.values():
                if run.due_ms <= self._clock.ms:
                    run.due_ms = self._clock.ms + max(run.stage.punctuate_seconds * 1000, coarse)
                    run.step(punctuate=True)
            self._flow()
        self._clock.ms = max(self._clock.ms, end)

    def output(self, topic: str) -> list[Record]:
        """Every committed record of a topic so far, by partition, then offset."""
        parts = sorted(p for t, p in self._broker.records if t == topic)
        return [record for p in parts for record in self._broker.records[topic, p]]

    def store(self, stage: str, name: str, partition: int = 0) -> KeyValueStore:
        """A store's committed state."""
        return self.run_of(stage).tasks[partition].stores[name]

    def run_of(self, stage: str) -> StageRun:
        """The process that runs a stage, alone or fused with others."""
        for run in self._runs.values():
            if stage in (run.stage.name, *(part.name for part in parts_of(run.stage))):
                return run
        raise KeyError(stage)

    def task(self, stage: str, partition: int = 0) -> Task:
        """The task of one partition of a stage, alone or fused with others."""
        found = self.run_of(stage).tasks[partition]
        return found.part(stage) if isinstance(found, FusedTask) else cast(Task, found)

    def restart(self, stage: str, *, keep_state: bool = False) -> None:
        """Restart a stage from its changelogs alone, unless its disk is kept."""
        run = self.run_of(stage)
        for task in run.tasks.values():
            task.closed()
        if not keep_state:
            run.wipe()
        run.start()

    def crash(self, stage: str, at: CrashPoint, times: int = 1) -> None:
        """Let the stage die when it next passes this point of a commit; it is restarted at once.

        With `times` it dies at that pass, counted from now: `produced` is passed once
        for each task, `between_writes` once for each store of each task.
        """
        self.run_of(stage).commits.arm(at, times)

    def close(self) -> None:
        """Close the tables that are on a disk."""
        for run in self._runs.values():
            run.close()

    def lay_out(self, stages: Sequence[AnyStage]) -> None:
        """End every process and start others that take over the stages' positions and disks.

        So fused stages go on where separate stages stopped, and the other way round.
        """
        offsets = {place: at for run in self._runs.values() for place, at in run.offsets.items()}
        self.close()
        self._runs = {stage.name: self._run(stage, offsets) for stage in stages}

    def _run(self, stage: AnyStage, offsets: Offsets = MappingProxyType({})) -> StageRun:
        own = {place: at for place, at in offsets.items() if place[0] in stage.inputs}
        return StageRun(
            stage, self._broker, self._clock, self.unread, self.set_aside, self._open_tables, own
        )

    def _flow(self) -> None:
        moved = True
        while moved:
            moved = False
            for run in self._runs.values():
                moved |= run.step(punctuate=False)
