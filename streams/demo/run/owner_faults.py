"""SIGKILLs of the owner of a partition, through which work has just begun to pass."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from streams.demo.run.kill import RECOVERY_SECONDS, Kill
from streams.demo.run.strikes import CHANCE_SECONDS, Strikes, counted
from streams.demo.run.waiting import until
from streams.demo.verdict.groups import Groups
from streams.demo.verdict.topic_recorder import Seen, TopicRecorder
from streams.dev.pipeline import Pipeline
from streams.kafka.offsets import Place
from streams.serde import job_states
from streams.serde.records import Job, Schedule
from streams.topology.model import FUSED

_INPUTS = {
    "dedup": ("events.received",),
    "scheduler": ("schedule",),
    "dispatcher": ("events", "jobs.commands"),
}


class OwnerFaults(Strikes):
    """Strikes the owners of partitions; each strike returns whether it landed."""

    def __init__(self, pipeline: Pipeline, topics: TopicRecorder, groups: Groups) -> None:
        super().__init__(pipeline)
        self._topics = topics
        self._groups = groups

    async def stage(self, stage: str) -> bool:
        """Strike the instance for which a record has just come in."""
        group = self._runs(stage)
        owners = await asyncio.to_thread(self._groups.owners, group)
        try:
            chance = self._topics.next_record(lambda s: s.topic in _INPUTS[stage] and not s.taken)
            seen = await asyncio.wait_for(chance, CHANCE_SECONDS)
        except TimeoutError:
            return False
        name = owners.get(seen.partition, "")
        pid, at = self._strike(name)
        committed = await asyncio.to_thread(self._groups.committed, group)
        mine = {partition for partition, owner in owners.items() if owner == name}
        left = self._left(stage, mine, committed, at)
        if not pid or not left:
            return False
        kill = Kill(stage, name, pid, at, f"{counted(len(left), 'record')} for {stage}")
        self._watch(kill, self._committed_past(group, left))
        return True

    async def scheduler(self) -> bool:
        """Strike the instance that has a timer about to be due."""
        owners = await asyncio.to_thread(self._groups.owners, self._runs("scheduler"))
        timers: list[Seen[Schedule]] = []

        def due_soon() -> bool:
            now = time.time()
            timers[:] = [
                s
                for s in self._topics.records.schedule
                if now + 0.05 < s.value.due_at / 1000 < now + 0.5 and not self._fired(s)
            ]
            return bool(timers)

        if not await until(due_soon, CHANCE_SECONDS):
            return False
        name = owners.get(timers[0].partition, "")
        pid, at = self._strike(name)
        await self._topics.to_end()
        mine = [timer for timer in timers if owners.get(timer.partition) == name]
        pending = [timer for timer in mine if not self._fired(timer, before=at)]
        if not pid or not pending:
            return False
        self._watch(
            Kill("scheduler", name, pid, at, f"{counted(len(pending), 'timer')} about to be due"),
            until(lambda: all(map(self._fired, pending)), RECOVERY_SECONDS),
        )
        return True

    async def dispatcher(self) -> bool:
        """Strike the owner of a job that a worker runs: what the run says must not be lost."""
        owners = await asyncio.to_thread(self._groups.owners, self._runs("dispatcher"))
        try:
            chance = self._topics.next_record(_begins)
            seen = await asyncio.wait_for(chance, CHANCE_SECONDS)
        except TimeoutError:
            return False
        name, job = owners.get(seen.partition, ""), seen.value
        pid, at = self._strike(name)
        await self._topics.to_end()

        def has_moved() -> bool:
            newest = self._topics.newest[job.job_id]
            return newest.epoch > job.epoch or newest.status not in job_states.LEASED

        if not pid or has_moved():
            return False
        kill = Kill("dispatcher", name, pid, at, f"a run of {job.type}")
        self._watch(kill, until(has_moved, RECOVERY_SECONDS))
        return True

    def _runs(self, stage: str) -> str:
        """The process and group name of a stage: the fused one's if that does its work."""
        fused = any(member.stage == FUSED for member in self._pipeline.members)
        return FUSED if fused and stage in _INPUTS else stage

    def _left(
        self, stage: str, mine: set[int], committed: dict[Place, int], at: float
    ) -> list[Seen[Any]]:
        """Records that were readable, but not yet committed by these partitions' dead owner."""
        return [
            seen
            for topic in _INPUTS[stage]
            for seen in self._topics.of(topic)
            if seen.partition in mine
            and not seen.taken
            and seen.read_at < at
            and seen.offset >= committed.get((topic, seen.partition), 0)
        ]

    async def _committed_past(self, group: str, left: list[Seen[Any]]) -> bool:
        while True:
            now = await asyncio.to_thread(self._groups.committed, group)
            if all(now.get((s.topic, s.partition), 0) > s.offset for s in left):
                return True
            await asyncio.sleep(0.1)

    def _fired(self, timer: Seen[Schedule], before: float = float("inf")) -> bool:
        return self._topics.commanded.get(timer.value.value, before) < before


def _begins(seen: Seen[Any]) -> bool:
    """Whether a record says that a job runs."""
    return isinstance(seen.value, Job) and seen.value.status in job_states.LEASED
