"""A stage's process in memory: its tasks and executor over a `MemoryBroker`."""

from __future__ import annotations

from collections.abc import Callable

from streams.errors import StageFailed
from streams.runtime.backends import backend_for, fold
from streams.runtime.clock import VirtualClock
from streams.runtime.executor import Executor
from streams.runtime.fused_task import task_of
from streams.runtime.link import Link, Workers
from streams.runtime.memory_broker import Crashed, MemoryBroker, MemoryTransactions
from streams.runtime.pace import Pace
from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import Record
from streams.runtime.stage import AnyStage, StoreSpec, parts_of
from streams.runtime.step import TransactionAborted, by_task
from streams.state.store import Backend, Changes, Checkpoint, Tables

_BATCH = 10_000

OpenTables = Callable[[str, str, int], Tables]
"""(stage, store, partition) to its tables, in the state in which they were last closed."""


OpenLink = Callable[[Workers], Link]
"""The roster of a stage to the link of its process, at each start of the process."""


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
        open_link: OpenLink,
        offsets: dict[tuple[str, int], int],
    ) -> None:
        self.stage = stage
        self.offsets = offsets
        self._broker, self._clock = broker, clock
        self._unread = unread
        self._set_aside = set_aside
        self._open = open_tables
        self._open_link = open_link
        self._tables: list[Tables] = []
        self.commits = MemoryTransactions(broker, offsets)
        self._executor = Executor(self.commits)
        self.tasks: dict[int, PartitionTask] = {}
        self._failed = False
        self._logs: list[tuple[str, int, list[Record]]] = []
        self._logs_known = 0
        self.start()

    def start(self) -> None:
        """Restore every store from its changelog, then the processors."""
        self._close_tables()
        self._close_link()
        self._failed = False
        self.tasks = {p: self._task(p) for p in self.partitions()}
        for task in self.tasks.values():
            task.restored()
        self._begin_link()
        self.pace = Pace(self.stage.punctuate_seconds, lambda: self._clock.ms)
        self.pace.take_due()

    def partitions(self) -> list[int]:
        """The partitions that it owns: all of its stage."""
        return list(range(self._broker.width(self.stage.inputs[0])))

    def revive(self) -> None:
        """Start the process again if it has failed."""
        if self._failed:
            self.start()

    def wipe(self) -> None:
        for tables in self._tables:
            tables.wipe()

    def close(self) -> None:
        for task in self.tasks.values():
            task.closed()
        self._close_link()
        self._close_tables()

    @property
    def link(self) -> Link | None:
        """The link of the process that runs now, if the stage has one."""
        return self.commits.link

    def unprocessed(self) -> list[Record]:
        positions = {p: task.positions for p, task in self.tasks.items()}
        held_back = {(t, p) for p, task in self.tasks.items() for t in task.held_back}
        return [
            record
            for topic, partition, log in self._input_logs()
            if len(log) > (position := positions[partition][topic])
            and (topic, partition) not in held_back
            for record in log[position : position + _BATCH]
        ]

    def _input_logs(self) -> list[tuple[str, int, list[Record]]]:
        """Every log that the tasks read, in the order in which the logs were begun."""
        if self._logs_known != len(self._broker.records):
            self._logs_known = len(self._broker.records)
            self._logs = [
                (topic, partition, log)
                for (topic, partition), log in self._broker.records.items()
                if topic in self.stage.inputs and partition in self.tasks
            ]
        return self._logs

    def step(self, *, punctuate: bool) -> bool:
        """Process and punctuate once; whether there was anything to process."""
        self.revive()
        records = self.unprocessed()
        if self.link is not None:
            records += self.link.take(self._clock.now())
        stirred = self._stirred()
        held_back = any(task.held_back for task in self.tasks.values())
        due = any(task.due for task in self.tasks.values())
        if not (records or stirred or held_back or punctuate or due):
            return False
        punctuated = list(self.tasks.values()) if punctuate else []
        try:
            batch = by_task(self.tasks, records)
            others = list(self.tasks.values())
            committed = self._executor.step(batch, punctuated, others, stirred)
            self.pace.followed(committed or bool(batch), punctuated)
        except Crashed:
            self.start()
        except TransactionAborted:
            self._rewind()
        except StageFailed:
            self._failed = True
            raise
        return bool(records or stirred) or held_back

    def _stirred(self) -> list[PartitionTask]:
        stirred = self.link is not None and self.link.stirred
        return list(self.tasks.values()) if stirred else []

    def _rewind(self) -> None:
        for task in self.tasks.values():
            task.rollback()
        if self.link is not None:
            self.link.again()

    def _begin_link(self) -> None:
        if self.stage.link is not None:
            self.commits.link = self._open_link(self.stage.link)
            self.commits.link.owned(self.tasks.keys())

    def _close_link(self) -> None:
        if self.commits.link is not None:
            self.commits.link.close()
            self.commits.link = None

    def _close_tables(self) -> None:
        while self._tables:
            self._tables.pop().close()

    def _task(self, partition: int) -> PartitionTask:
        backends = {spec.name: self._restore(spec, partition) for spec in self.stage.stores}
        positions = {t: self.offsets.get((t, partition), 0) for t in self.stage.inputs}
        return task_of(
            self.stage,
            partition,
            backends,
            self._clock,
            self._caught_up_to,
            positions,
            self._set_aside,
        )

    def _caught_up_to(self, topic: str, partition: int, _moment: float) -> bool:
        if topic in self._unread or topic not in self.stage.writes:
            return topic not in self._unread
        log = self._broker.records[topic, partition]
        return self.tasks[partition].positions[topic] >= len(log)

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
