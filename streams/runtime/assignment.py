"""The tasks of the partitions that this process was assigned, from opening to closing.

Opening follows one order: the group's committed offsets, then the changelogs' ends, then restore.
The other way round, a transaction that commits in between would be in the offsets but not in the
restored stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from confluent_kafka.admin import AdminClient

from streams.runtime import metrics
from streams.runtime.clock import Clock
from streams.runtime.offsets import earliest, offset_in, request_offsets
from streams.runtime.processor import Stage
from streams.runtime.restore import Restore, Restoring
from streams.runtime.source import Source
from streams.runtime.state_directory import StateDirectory
from streams.runtime.task import ReadThrough, Task
from streams.runtime.topics import Changelog
from streams.state.store import Backend

log = structlog.get_logger(__name__)

_TIMEOUT = 5.0


class Assignment:
    """Tasks by partition; empty until `advance` has answered True.

    `config` is that of the restoring consumer.
    """

    def __init__(
        self,
        stage: Stage,
        source: Source,
        admin: AdminClient,
        prefix: str,
        directory: StateDirectory,
        changelogs: Mapping[str, Changelog],
        config: Mapping[str, Any],
        clock: Clock,
        read_through: ReadThrough,
    ) -> None:
        self.tasks: dict[int, Task] = {}
        self._stage = stage
        self._source = source
        self._admin = admin
        self._prefix = prefix
        self._directory = directory
        self._changelogs = changelogs
        self._config = config
        self._clock = clock
        self._read_through = read_through
        self._opened: dict[int, dict[str, Backend]] = {}
        self._positions: dict[tuple[str, int], int] = {}
        self._restore: Restore | None = None

    @property
    def positions(self) -> dict[tuple[str, int], int]:
        """Where each input of each task goes on."""
        return {
            (topic, partition): offset
            for partition, task in self.tasks.items()
            for topic, offset in task.positions.items()
        }

    def open(self, partitions: Sequence[int]) -> None:
        """Begin anew with these partitions.

        Raises:
            KafkaException: not answered in time: `close`, and try again.
        """
        self._positions = self._committed(partitions) if partitions else {}
        stores = []
        for partition in partitions:
            backends = self._opened.setdefault(partition, {})
            for spec in self._stage.stores:
                changelog = self._changelogs[spec.changelog]
                backends[spec.name] = self._directory.open(spec, partition, changelog)
                stores.append(Restoring(spec.name, partition, backends[spec.name], changelog))
        now = self._clock.now()
        self._restore = Restore(stores, self._admin, self._prefix, self._config, now)
        if partitions:
            log.info("assigned", partitions=list(partitions), to_restore=self._restore.left)

    def advance(self) -> bool:
        """Restore one chunk more; whether the tasks are there."""
        if self._restore is not None:
            complete = self._restore.advance(self._clock.now())
            metrics.RESTORE_LEFT.labels(self._stage.name).set(self._restore.left)
            if not complete:
                return False
            self._restore = None
            self.tasks = {p: self._task(p, b) for p, b in self._opened.items()}
            self._opened = {}
            for task in self.tasks.values():
                task.restored()
        return True

    def close(self) -> None:
        """Leave all stores as their last commit left them."""
        if self._restore is not None:
            self._restore.close()
            self._restore = None
        for task in self.tasks.values():
            task.close()
        for backends in self._opened.values():
            for backend in backends.values():
                backend.close()
        self.tasks, self._opened = {}, {}

    def _task(self, partition: int, backends: dict[str, Backend]) -> Task:
        positions = {topic: self._positions[topic, partition] for topic in self._stage.inputs}
        return Task(self._stage, partition, backends, self._clock, self._read_through, positions)

    def _committed(self, partitions: Sequence[int]) -> dict[tuple[str, int], int]:
        """Committed offsets, else the log's start, so that every transaction has valid ones."""
        found = self._source.committed(partitions, _TIMEOUT)
        places = [(topic, p) for topic in self._stage.inputs for p in partitions]
        missing = [place for place in places if place not in found]
        starts = request_offsets(self._admin, self._prefix, missing, earliest(), _TIMEOUT)
        return {**found, **{place: offset_in(answer) for place, answer in starts.items()}}
