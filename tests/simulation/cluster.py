"""The stages and their broker, with the faults of processes, disks and clocks."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, cast

from simulation.clocks import ProcessClock, WallClock
from streams.link.owner import Owner
from streams.link.roster import Roster
from streams.link.terms import Terms
from streams.runtime.driver import Offsets, TopologyTestDriver
from streams.runtime.link import LINK, Workers
from streams.runtime.memory_process import StageRun
from streams.runtime.processor import Record
from streams.runtime.stage import AnyStage, parts_of
from streams.state.memory import MemoryTables
from streams.topology.model import Topology

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_UPTIMES_MS = (5_000.0, 40 * DAY_MS, 3 * HOUR_MS, 400 * DAY_MS)
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
            for partition in range(self.partitions)
            for topic, at in run.tasks[partition].positions.items()
        )

    def reboot(self, stage: str) -> None:
        """A stage goes on on another machine, which has been up for another time."""
        self._boots += 1
        run = self.run_of(stage)
        run._clock = ProcessClock(self._clock, _UPTIMES_MS[self._boots % len(_UPTIMES_MS)])  # type: ignore[assignment]
        run.start()

    def declare(self, topology: Topology) -> None:
        """The broker has the topics of a topology."""
        self._broker._topology = topology

    def rewire(self, stages: Sequence[AnyStage], topology: Topology) -> None:
        """Every process ends and starts under another topology; topics and disks stay."""
        self.declare(topology)
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
        run = self.run_of(stage)
        if run.link is not None:
            run.link.owned(run.tasks.keys() - {partition})
        run.tasks[partition] = run._task(partition)
        run.tasks[partition].restored()
        if run.link is not None:
            run.link.owned(run.tasks.keys())

    def usurp(self, stage: str) -> None:
        """A stage goes on on another machine; the end of the link of the former process lives on.

        Its stage is blocked in a commit that never succeeds, so it takes and says nothing more.
        """
        run = self.run_of(stage)
        self.zombie, run.commits.link = self.owner, None
        for peer in list(self.zombie._connected.values()):
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
        return Owner(workers, terms, self._monotonic)

    def _monotonic(self) -> float:
        return self.run_of("dispatcher")._clock.monotonic()

    def _run(self, stage: AnyStage, offsets: Offsets = MappingProxyType({})) -> StageRun:
        run = super()._run(stage, offsets)
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
        for place in [p for p in self._disks if p[:2] == (stage, store)]:
            old = self._old.get(place) if how == "old" else None
            self._disks[place] = copy.deepcopy(old) if old is not None else MemoryTables()
        self.run_of(stage).start()

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
        run.start()

    def lose_timers(self) -> None:
        """The scheduler's state and what waits in its input are gone."""
        run = self.run_of("scheduler")
        for place in [p for p in self._disks if p[0] == "scheduler"]:
            self._disks[place] = MemoryTables()
            self._old.pop(place, None)
        for partition in range(self.partitions):
            self._broker.records["scheduler.timers.changelog", partition].clear()
            run.offsets["schedule", partition] = len(self._broker.records["schedule", partition])
        run.start()

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
