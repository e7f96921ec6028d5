"""Jobs that wait for a worker of their type do so visibly: `jobs.held` names pool and type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.outside import Violation
from streams.runtime.processor import Record
from streams.serde.codec import HELD
from streams.serde.ids import partition_for
from streams.serde.records import Held, Job

if TYPE_CHECKING:
    from simulation.world import World

_EVERY_SECONDS = 15
_PATIENCE_SECONDS = 90
"""A term until a silent worker is given up, and what is granted to a deployment."""


class Waiting:
    """What is told of waiting jobs, and since when it ought to be."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.held: dict[bytes, Held] = {}
        self._alone: dict[tuple[int, str, str], float] = {}
        self._looked_at = 0.0
        self._tasks: list[int] = []
        self._boots: set[str] = set()

    def told(self, record: Record) -> None:
        """A record of `jobs.held`."""
        key = record.key or b""
        if record.value is None:
            self.held.pop(key, None)
        else:
            self.held[key] = HELD.decode(record.value)

    def look(self, jobs: list[Job]) -> None:
        """See, now and then, that what has long waited in vain is told.

        Raises:
            Violation: something waits, and nobody can see why.
        """
        now, before = self._world.seconds, self._looked_at
        if now - before < _EVERY_SECONDS:
            return
        self._looked_at = now
        if now - before > 2 * _EVERY_SECONDS or self._disturbed():
            self._alone.clear()
        self._alone = {place: self._alone.get(place, now) for place in self._places(jobs)}
        told = {(held.partition, held.pool, held.type) for held in self.held.values()}
        for place, since in self._alone.items():
            if now - since > _PATIENCE_SECONDS and place not in told:
                raise Violation("unseen", f"{place} waits since {since:.0f}: no word of it")

    def at_the_end(self) -> None:
        """Nothing waits any more, and nothing says so.

        Raises:
            Violation: something is told that is over.
        """
        if self.held:
            raise Violation("held_stale", f"{list(self.held.values())[:2]}")

    def _places(self, jobs: list[Job]) -> set[tuple[int, str, str]]:
        """Partition, pool and type of ready jobs that no worker handles now."""
        before, self._boots = self._boots, {w.id for w in self._world.workers.values()}
        handled = {
            (worker.pool, each.type)
            for worker in self._world.workers.values()
            if worker.alive or worker.id not in before  # a suspect may end it as soon as it starts
            for each in worker.link.identity.handlers
        }
        partitions = self._world.partitions
        return {
            (partition_for(job.tenant_id, partitions), job.pool, job.type)
            for job in jobs
            if job.status == "pending" and (job.pool, job.type) not in handled
        }

    def _disturbed(self) -> bool:
        """Whether the dispatcher stood still or began anew: then it has to learn who is there."""
        cluster, partitions = self._world.cluster, range(self._world.partitions)
        now = [id(cluster.whole("dispatcher", partition)) for partition in partitions]
        before, self._tasks = self._tasks, now
        frozen = cluster.is_frozen("dispatcher", self._looked_at * 1000)
        return before != self._tasks or frozen or bool(cluster.unread)
