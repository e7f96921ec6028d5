"""The stages and their broker, with the faults of processes, disks and clocks."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any, cast

from simulation.clocks import ProcessClock, WallClock
from simulation.owners import Owning
from streams.link.owner import Owner
from streams.link.roster import Roster
from streams.link.terms import Terms
from streams.runtime.driver import Offsets, TopologyTestDriver
from streams.runtime.fused_task import FusedTask
from streams.runtime.link import LINK, Workers
from streams.runtime.partition_task import PartitionTask
from streams.runtime.processor import Record
from streams.runtime.stage import AnyStage, parts_of
from streams.runtime.task import Task
from streams.state.memory import MemoryTables
from streams.topology.model import Topology

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_UPTIMES_MS = (5_000.0, 40 * DAY_MS, 3 * HOUR_MS, 400 * DAY_MS)
_SECOND = "second"
"""The process that shares the partitions of jobs with the first one, if there is one."""
_SEGMENT_MS = 7 * DAY_MS
"""Kafka deletes whole segments: a record can be read so long past its retention."""


class _Nobody:
    """The roster of a stage that does nothing any more."""

    def connected(self, *_: object) -> None: ...

    def heard(self, *_: object) -> None: ...

    def gone(self, worker_id: str) -> None: ...


class Cluster(TopologyTestDriver):
    """A driver whose stages are stopped, frozen, moved and rewired; time passes in ticks."""

    def __init__(self, stages: Sequence[AnyStage], topology: Topology, partitions: int) -> None:
        self._disks: dict[tuple[str, str, int], MemoryTables] = defaultdict(MemoryTables)
        self._old: dict[tuple[str, str, int], MemoryTables] = {}
        self.frozen: dict[str, float] = {}
        self.zombie: Owner | None = None
        self.appended = 0
        self.commits: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        """By log: the offset behind each transaction's records, and when it was committed."""
        self._boots = 0
        disk = self._disks.__getitem__
        self.partitions = partitions
        super().__init__(stages, topology, partitions, lambda *place: disk(place), self._open_owner)
        self._note_commits()
        self.wall = WallClock(self._clock)
        for name in self._runs:
            self.reboot(name)

    @property
    def true_ms(self) -> int:
        return int(self._clock.ms)

    @property
    def owner(self) -> Owner:
        """The end of the link that the process of the dispatcher has."""
        return cast(Owner, self.run_of("dispatcher").link)

    @property
    def second(self) -> Owner | None:
        """The same of the other process of the dispatcher, if there are two."""
        run = self._runs.get(_SECOND)
        return None if run is None else cast(Owner, run.link)

    def runs_of(self, stage: str) -> Iterator[Owning]:
        """The processes that run a stage, alone or fused with others."""
        for run in self._runs.values():
            if stage in (run.stage.name, *(part.name for part in parts_of(run.stage))):
                yield cast(Owning, run)

    def whole(self, stage: str, partition: int) -> PartitionTask:
        """The task of one partition of a stage, with what is fused with it."""
        return next(r.tasks[partition] for r in self.runs_of(stage) if partition in r.tasks)

    def task(self, stage: str, partition: int = 0) -> Task:
        found = self.whole(stage, partition)
        return found.part(stage) if isinstance(found, FusedTask) else cast(Task, found)

    @property
    def records(self) -> dict[tuple[str, int], list[Record]]:
        return self._broker.records

    def _note_commits(self) -> None:
        append = self._broker.append

        def noted(topic: str, partition: int, records: Sequence[Record]) -> None:
            append(topic, partition, records)
            log = self._broker.records[topic, partition]
            self.commits[topic, partition][len(log)] = self.true_ms

        self._broker.append = noted  # type: ignore[method-assign]

    def append(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int, late_ms: int = 0
    ) -> Record:
        """A producer's record, stamped by the broker; it flows at the next tick.

        `late_ms` is for how long it was there and not read.
        """
        log = self._broker.records[topic, partition]
        log.append(Record(topic, partition, len(log), self.now - late_ms, key, value, []))
        self.appended += 1
        return log[-1]

    def tick(self, seconds: float) -> None:
        """Time passes in one go; then each stage is punctuated, and all that can flow does."""
        self._clock.ms += seconds * 1000
        for name, run in self._runs.items():
            # Dedup does nothing because time passes.
            if name != "dedup" and self.frozen.get(name, 0) <= self._clock.ms:
                run.step(punctuate=True)
        self.flow()

    def flow(self) -> None:
        """All that can flow without time passing does."""
        moved = True
        while moved:
            moved = False
            for name, run in self._runs.items():
                if self.frozen.get(name, 0) <= self._clock.ms and self._has_input(run):
                    moved |= run.step(punctuate=False)

    def _has_input(self, run: Any) -> bool:
        """Cheaper than a step in vain."""
        return (run.link is not None and run.link.waiting) or any(
            len(self.records[topic, partition]) > at
            for partition, task in run.tasks.items()
            for topic, at in task.positions.items()
        )

    def reboot(self, stage: str) -> None:
        """A stage goes on on another machine, which has been up for another time."""
        self._begin(cast(Owning, self.run_of(stage)))

    def _begin(self, run: Owning) -> None:
        self._boots += 1
        run._clock = ProcessClock(self._clock, _UPTIMES_MS[self._boots % len(_UPTIMES_MS)])  # type: ignore[assignment]
        run.start()

    def declare(self, topology: Topology) -> None:
        """The broker has the topics of a topology."""
        self._broker._topology = topology

    def rewire(self, stages: Sequence[AnyStage], topology: Topology) -> None:
        """Every process ends and starts under another topology; topics and disks stay."""
        self.declare(topology)
        self._unite()
        if {stage.name for stage in stages} != self._runs.keys():
            self.frozen.clear()
            self.lay_out(stages)
            for stage in stages:
                self.reboot(stage.name)
        for stage in stages:
            self.run_of(stage.name).stage = stage
            self.run_of(stage.name).start()

    def freeze(self, stage: str, seconds: float) -> None:
        """The process that runs a stage stands still."""
        self.frozen[self.run_of(stage).stage.name] = self.true_ms + seconds * 1000

    def is_frozen(self, stage: str, since_ms: float) -> bool:
        """Whether the process that runs a stage has stood still at some time since."""
        return self.frozen.get(self.run_of(stage).stage.name, 0) > since_ms

    def rebalance(self, stage: str, partition: int) -> None:
        """One partition goes to a process that has never had it."""
        next(run for run in self.runs_of(stage) if partition in run.tasks).begin(partition)

    def share(self, stage: AnyStage) -> None:
        """Another process begins to run the stage of the dispatcher, without a partition yet."""
        first = cast(Owning, self.run_of("dispatcher"))
        disk = self._disks.__getitem__
        tables, self._open_tables = self._open_tables, lambda s, *place: disk((f"{s} 2", *place))
        run = self._process(stage, first.offsets, others=range(self.partitions))
        self._open_tables = tables
        self._runs[_SECOND] = run
        self._begin(run)

    def move(self, partition: int) -> None:
        """A partition of the dispatcher goes from one of its two processes to the other one."""
        one, other = self.runs_of("dispatcher")
        old, new = (one, other) if partition in one.tasks else (other, one)
        old.revive()
        new.revive()
        old.give_up(partition)
        new.take_over(partition)

    def _unite(self) -> None:
        """The second process of the dispatcher ends, and the first one gets its partitions."""
        second = self._runs.pop(_SECOND, None)
        if second is not None:
            second.close()
            for partition in second.partitions():
                cast(Owning, self.run_of("dispatcher")).take_over(partition)

    def usurp(self, stage: str) -> None:
        """A stage goes on on another machine; the end of the link of the former process lives on.

        Its stage is blocked in a commit that never succeeds, so it takes and says nothing more.
        """
        run = self.run_of(stage)
        self.zombie, run.commits.link = self.owner, None
        for peer in self.zombie._connections:
            cast(Workers, run.stage.link).gone(peer.worker_id)
        self.zombie._roster = Roster(_Nobody())
        self.reboot(stage)

    def bury(self) -> None:
        """The process that lives on without its stage ends."""
        if self.zombie is not None:
            self.zombie.close()
            self.zombie = None

    def _open_owner(self, workers: Workers) -> Owner:
        topology = self._broker._topology
        pools = frozenset(topology.pools)
        terms = Terms("owner", self.partitions, pools, topology.leases)

        def monotonic() -> float:
            runs = self._runs.values()
            of_workers = (run for run in runs if run.stage.link is workers)
            return next(of_workers, self.run_of("dispatcher"))._clock.monotonic()

        return Owner(workers, terms, monotonic)

    def _run(self, stage: AnyStage, offsets: Offsets = MappingProxyType({})) -> Owning:
        return self._process(stage, dict(offsets))

    def _process(
        self, stage: AnyStage, offsets: dict[tuple[str, int], int], others: Sequence[int] = ()
    ) -> Owning:
        world = self._broker, self._clock, self.unread, self.set_aside
        run = Owning(stage, *world, self._open_tables, self._open_link, offsets, others=others)
        of_topics = run._caught_up_to

        def caught_up_to(topic: str, partition: int, moment: float) -> bool:
            if topic == LINK and topic not in self.unread:
                return run.link is not None and run.link.caught_up_to(moment)
            return of_topics(topic, partition, moment)

        run._caught_up_to = caught_up_to  # type: ignore[method-assign, assignment]
        return run

    def photograph(self) -> None:
        """Keep every disk as it is now."""
        self._old = {place: copy.deepcopy(tables) for place, tables in self._disks.items()}

    def lose(self, stage: str, store: str, how: str) -> None:
        """A disk is empty, or as it was when it was photographed, at the next start."""
        for place in [p for p in self._disks if p[0].startswith(stage) and p[1] == store]:
            old = self._old.get(place) if how == "old" else None
            self._disks[place] = copy.deepcopy(old) if old is not None else MemoryTables()
        for run in self.runs_of(stage):
            run.start()

    def reset_offsets(self, stage: str) -> None:
        """The group's offsets are lost: every input is read again from the oldest that is left."""
        run = self.run_of(stage)
        part = next(part for part in parts_of(run.stage) if part.name == stage)
        for topic in part.inputs:
            retention = self._broker._topology.topics[topic].retention_ms
            oldest = self._clock.ms - retention - _SEGMENT_MS if retention else 0
            for partition in range(self.partitions):
                log = self._broker.records[topic, partition]
                first = next((r.offset for r in log if r.timestamp >= oldest), len(log))
                run.offsets[topic, partition] = first
        for each in self.runs_of(stage):
            each.start()

    def lose_timers(self) -> None:
        """The scheduler's state and what waits in its input are gone."""
        run = self.run_of("scheduler")
        for place in [p for p in self._disks if p[0].startswith("scheduler")]:
            self._disks[place] = MemoryTables()
            self._old.pop(place, None)
        for partition in range(self.partitions):
            self._broker.records["scheduler.timers.changelog", partition].clear()
            run.offsets["schedule", partition] = len(self._broker.records["schedule", partition])
        for each in self.runs_of("scheduler"):
            each.start()

    def position(self, stage: str, record: Record) -> int:
        """The next offset that a stage reads of a record's partition; 0 if it reads none of it."""
        run = self.run_of(stage)
        if record.topic not in run.stage.inputs:
            return 0
        return run.offsets.get((record.topic, record.partition), 0)

    def stores(self) -> list[tuple[str, Any, int, Any, list[Record]]]:
        """Of each store: its stage, spec, partition, task's overlay and changelog."""
        return [
            (name, spec, partition, task.stores[spec.name], self.records[spec.changelog, partition])
            for name, run in self._runs.items()
            for partition, task in run.tasks.items()
            for spec in run.stage.stores
        ]
