"""The tasks of the partitions assigned to this process, from opening to closing.

Opening follows one order: read the group's committed offsets, then the changelogs' ends, then
restore. In any other order, a transaction that commits in between would be in the offsets but not
in the restored stores.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import structlog
from confluent_kafka.admin import AdminClient

from streams.kafka.offsets import Place, earliest, read_offsets
from streams.runtime import metrics
from streams.runtime.clock import Clock
from streams.runtime.context import CaughtUpTo
from streams.runtime.doubted_ends import DoubtedEnds
from streams.runtime.fused_task import task_of
from streams.runtime.link import LinkService
from streams.runtime.partition_task import PartitionTask
from streams.runtime.restore import Restore
from streams.runtime.restoring_store import Restoring
from streams.runtime.source import Source
from streams.runtime.stage import AnyStage
from streams.runtime.state_directory import StateDirectory
from streams.runtime.task_stores import close_backend
from streams.runtime.topics import Changelog
from streams.state.store import Backend

log = structlog.get_logger(__name__)

_TIMEOUT = 5.0
_PART_SECONDS = 0.05
"""How long processors may build their derived state between two polls."""
_REMOVE_SECONDS = 2.0
"""About how long stores may be deleted between two polls."""
_REMOVE_EVERY_SECONDS = 3_600.0
_REMOVE_AGAIN_SECONDS = 60.0
_ENDED = object()


class Assignment:
    """The tasks by partition, each from the end of its restore until its partition is taken away.

    `config` is that of the restoring consumer. What serves a link is told which tasks there are.
    """

    def __init__(
        self,
        stage: AnyStage,
        source: Source,
        admin: AdminClient,
        prefix: str,
        directory: StateDirectory,
        changelogs: Mapping[str, Changelog],
        config: Mapping[str, Any],
        clock: Clock,
        caught_up_to: CaughtUpTo,
        set_aside: AbstractSet[tuple[str, int, int]] = frozenset(),
        link: LinkService | None = None,
    ) -> None:
        self.tasks: dict[int, PartitionTask] = {}
        self._stage = stage
        self._source = source
        self._admin = admin
        self._prefix = prefix
        self._directory = directory
        self._changelogs = changelogs
        self._config = config
        self._clock = clock
        self._caught_up_to = caught_up_to
        self._set_aside = set_aside
        self._link = link
        self._opened: dict[int, dict[str, Backend]] = {}
        self._positions: dict[Place, int] = {}
        self._doubted = DoubtedEnds()
        self._restore: Restore | None = None
        self._building: list[tuple[PartitionTask, Generator[None]]] = []
        self._remove_at = time.monotonic() + _REMOVE_EVERY_SECONDS

    def keep(self, partitions: Collection[int]) -> bool:
        """Close all tasks except those of these partitions, and stop any restore in progress.

        Returns whether a task was closed.
        """
        self._stop_restoring()
        gone = [p for p in self.tasks if p not in partitions]
        for partition in gone:
            if self._link is not None:
                self._link.closing(partition)
            self.tasks.pop(partition).close()
        return bool(gone)

    def begin(self, partitions: Collection[int]) -> None:
        """Begin to restore those of these partitions that have no task yet.

        Raises:
            KafkaException: Kafka did not answer in time: call `keep`, and try again.
            EndDoubted: it gave an end of a changelog that is not believed yet: do the same.
            ConfigError: the process may not open enough files.
        """
        new = sorted(set(partitions) - self.tasks.keys())
        if not new:
            self._doubted = DoubtedEnds()  # forget those of partitions that were taken away
            return
        self._directory.make_room(len(self.tasks) + len(new))
        self._remove_left(new)  # before opening any: a full disk would end each start there
        self._positions = self._committed(new)
        stores = []
        for partition in new:
            backends = self._opened.setdefault(partition, {})
            for spec in self._stage.stores:
                changelog = self._changelogs[spec.changelog]
                backends[spec.name] = self._directory.open(spec, partition, changelog)
                stores.append(Restoring(spec.name, partition, backends[spec.name], changelog))
        now = self._clock.now()
        self._restore = Restore(stores, self._admin, self._prefix, self._config, now, self._doubted)
        log.info("assigned", partitions=new, to_restore=self._restore.left)

    def remove_left(self) -> None:
        """Delete, once an hour, the stores of partitions that moved away long ago.

        Do not call it while assigned partitions were not begun: their stores would go too.
        """
        if time.monotonic() >= self._remove_at:
            done = self._remove_left()
            wait = _REMOVE_EVERY_SECONDS if done else _REMOVE_AGAIN_SECONDS
            self._remove_at = time.monotonic() + wait

    @property
    def inputs(self) -> list[Place]:
        """All that is processed here, or will be once its stores are restored."""
        running = [(topic, p) for p in sorted(self.tasks) for topic in self._stage.inputs]
        return running + [place for place in self._positions if place[1] not in self.tasks]

    def position(self, topic: str, partition: int) -> int:
        """The next offset to process of an input, also before its stores are restored."""
        waits = None if partition in self.tasks else self._positions.get((topic, partition))
        return self._source.position(topic, partition) if waits is None else waits

    @property
    def restoring(self) -> bool:
        """Whether tasks that were begun are not ready yet."""
        return self._restore is not None or bool(self._building)

    def advance(self) -> list[PartitionTask]:
        """Restore one more part and return the tasks that it made ready."""
        if self._restore is not None:
            self._read(self._restore)
        return self._build()

    def _read(self, restore: Restore) -> None:
        complete = restore.advance(self._clock.now())
        self._show_left(restore.left, restore.seconds_left)
        if complete:
            self._restore = None
            tasks = [self._task(p, backends) for p, backends in self._opened.items()]
            self._building = [(task, task.restoring()) for task in tasks]
            self._opened = {}

    def _build(self) -> list[PartitionTask]:
        """Let processors build their derived state, for a moment or until all have finished."""
        ready: list[PartitionTask] = []
        until = time.monotonic() + _PART_SECONDS
        while self._building:
            task, parts = self._building[0]
            if next(parts, _ENDED) is _ENDED:
                del self._building[0]
                self.tasks[task.partition] = task
                if self._link is not None:
                    self._link.opened(task.partition, task.stores)
                ready.append(task)
            if time.monotonic() >= until:
                break
        return ready

    def close(self) -> None:
        """Close all stores in the state of their last commit."""
        self.keep(())

    def _stop_restoring(self) -> None:
        if self._restore is not None:
            self._restore.close()
            self._restore = None
            self._show_left(0, 0.0)
        for backends in self._opened.values():
            for name, backend in backends.items():
                close_backend(name, backend)
        self._opened = {}
        for task, parts in self._building:
            parts.close()
            task.close()
        self._building, self._positions = [], {}

    def _remove_left(self, new: Collection[int] = ()) -> bool:
        building = {task.partition for task, _ in self._building}
        here = self.tasks.keys() | self._opened.keys() | building | set(new)
        stores = [spec.name for spec in self._stage.stores]
        kept = {self._directory.path(store, partition) for store in stores for partition in here}
        return self._directory.remove_left(kept, _REMOVE_SECONDS)

    def _show_left(self, records: int, seconds: float) -> None:
        metrics.RESTORE_LEFT.labels(self._stage.name).set(records)
        metrics.RESTORE_SECONDS_LEFT.labels(self._stage.name).set(seconds)

    def _task(self, partition: int, backends: dict[str, Backend]) -> PartitionTask:
        positions = {topic: self._positions[topic, partition] for topic in self._stage.inputs}
        return task_of(
            self._stage,
            partition,
            backends,
            self._clock,
            self._caught_up_to,
            positions,
            self._set_aside,
        )

    def _committed(self, partitions: Sequence[int]) -> dict[Place, int]:
        """Committed offsets, else the log's start, so that every transaction has valid ones."""
        found = self._source.committed(partitions, _TIMEOUT)
        places = [(topic, p) for topic in self._stage.inputs for p in partitions]
        starts = read_offsets(self._admin, self._prefix, places, earliest(), _TIMEOUT)
        for (topic, partition), offset in found.items():
            deleted = starts[topic, partition] - offset
            if deleted > 0:  # an idle input may have lost only a transaction's marker
                log.warning(
                    "input was deleted before it was read: is its retention too short?",
                    topic=topic,
                    partition=partition,
                    offsets=deleted,
                )
        return {place: max(start, found.get(place, 0)) for place, start in starts.items()}


def positions(tasks: Iterable[PartitionTask]) -> dict[Place, int]:
    """The next offset to process of each input of these tasks."""
    return {(topic, t.partition): at for t in tasks for topic, at in t.positions.items()}
