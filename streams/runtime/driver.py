"""`TopologyTestDriver`: stages and their whole flow in memory, on a virtual clock.

It runs the same tasks and the same executor as production. Only topics are lists here, and a
transaction is one append to several of them. So state, poison records, savepoints, changelog
restore and crashes between the steps of a commit behave as they do on a broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import cast

from streams.runtime.clock import VirtualClock
from streams.runtime.dead_keys import NO_OFFSET
from streams.runtime.fused_task import FusedTask
from streams.runtime.link import LINK, Workers
from streams.runtime.memory_broker import CrashPoint, MemoryBroker
from streams.runtime.memory_link import MemoryLink
from streams.runtime.memory_process import OpenLink, OpenTables, StageRun
from streams.runtime.processor import Header, Record
from streams.runtime.stage import AnyStage, parts_of
from streams.runtime.task import Task
from streams.state.memory import MemoryTables
from streams.state.store import KeyValueStore, Tables
from streams.topology.model import Topology

START_MS = 1_750_000_000_000
_MOST_STEPS = 2_000

Offsets = Mapping[tuple[str, int], int]
"""(logical topic, partition) to the next offset."""


class TopologyTestDriver:
    """Feeds records to stages and shows what they did.

    Forwarded records flow on to every stage that reads their topic before `pipe` and `advance`
    return. Both raise `StageFailed` where a stage ends; the next step starts it again. A topic has
    the partitions that its topology gives it, or `partitions` if it shares the topology's number.
    `unread` names inputs for which `caught_up_to` answers False, and `set_aside` the records
    (topic, partition, offset) that go to `dlq` unprocessed. Stores are kept in memory unless
    `open_tables` opens others. A test plays the workers of a stage's link (`link`) unless
    `open_link` opens another one.
    """

    def __init__(
        self,
        stages: Sequence[AnyStage],
        topology: Topology,
        partitions: int | None = None,
        open_tables: OpenTables | None = None,
        open_link: OpenLink | None = None,
    ) -> None:
        self._clock = VirtualClock(START_MS)
        self._broker = MemoryBroker(topology, partitions, self._clock)
        self.unread: set[str] = set()
        self.set_aside: set[tuple[str, int, int]] = set()
        self._held = False
        kept: dict[tuple[str, str, int], Tables] = defaultdict(MemoryTables)
        self._open_tables = open_tables or (lambda *place: kept[place])
        self._handed_out: list[Record] = []
        self._open_link = open_link or self._memory_link
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
        """Append a record, at the virtual clock's time unless one is given, and let it flow.

        With the topic `link` it is a command of the worker whose id is the key. A process that
        crashes loses it.
        """
        at = self.now if timestamp is None else timestamp
        if topic == LINK:
            self.link().send(Record(topic, partition, NO_OFFSET, at, key, value, list(headers)))
        else:
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
        punctuated: set[StageRun] = set()
        while (due := min((run.pace.due for run in self._runs.values()), default=end)) <= end:
            self._clock.ms = max(self._clock.ms, due)
            for run in self._runs.values():
                if run.pace.take_due(coarse):
                    punctuated.add(run)
                    run.step(punctuate=True)
            self._flow()
        self._clock.ms = max(self._clock.ms, end)
        for run in punctuated:  # a bigger step does not outlast the call
            run.pace.followed(True, ())

    def output(self, topic: str) -> list[Record]:
        """Every committed record of a topic so far, by partition, then offset.

        With the topic `link` it is what was handed out to workers, in that order; the key is the
        worker's id.
        """
        if topic == LINK:
            return list(self._handed_out)
        parts = sorted(p for t, p in self._broker.records if t == topic)
        return [record for p in parts for record in self._broker.records[topic, p]]

    def link(self) -> MemoryLink:
        """The link of the process that has one, to play its workers."""
        run = next(run for run in self._runs.values() if run.stage.link is not None)
        run.revive()
        return cast(MemoryLink, run.link)

    def abort(self, stage: str, times: int = 1) -> None:
        """Have the next transactions of the stage's process aborted, so many of them."""
        self.run_of(stage).commits.abort(times)

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
        runs = self._runs.values()
        known = {part.name: run.offsets for run in runs for part in parts_of(run.stage)}
        self.close()
        self._runs = {
            stage.name: self._run(
                stage,
                {
                    place: at
                    for part in parts_of(stage)
                    for place, at in known.get(part.name, {}).items()
                    if place[0] in part.inputs
                },
            )
            for stage in stages
        }

    def _run(self, stage: AnyStage, offsets: Offsets = MappingProxyType({})) -> StageRun:
        return StageRun(
            stage,
            self._broker,
            self._clock,
            self.unread,
            self.set_aside,
            self._open_tables,
            self._open_link,
            dict(offsets),
        )

    def _memory_link(self, workers: Workers) -> MemoryLink:
        return MemoryLink(workers, self._handed_out)

    def _flow(self) -> None:
        moved = True
        while moved:
            moved = False
            for run in self._runs.values():
                moved |= run.step(punctuate=False)
