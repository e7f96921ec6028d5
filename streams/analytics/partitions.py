"""The partitions that this process counts: opened when they are assigned, closed when they go."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import structlog
from faust.types import TP

from streams.analytics.partition import CountedPartition
from streams.analytics.windows import segment_ms
from streams.runtime.state_directory import StateDirectory
from streams.serde.ids import partition_for
from streams.settings import Settings
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

TOPICS = ("events", "duplicates", "jobs", "ledger")
"""What the stage reads; each partition of each has tables of its own."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that this process counts at one moment; a later one does not change it.

    It is safe to read in threads.
    """

    prefix: str
    width: int
    open: Mapping[TP, CountedPartition]

    def topic(self, tp: TP) -> str:
        """The topic's name in the topology."""
        return str(tp.topic).removeprefix(self.prefix)

    def of(self, topic: str) -> Iterator[tuple[int, CountedPartition]]:
        """The partitions of a topic that this process counts."""
        for tp, counted in sorted(self.open.items()):
            if self.topic(tp) == topic:
                yield tp.partition, counted

    def home(self, tenant_id: str) -> int:
        """The partition in which a tenant's records are, on every topic."""
        return partition_for(tenant_id, self.width)

    def missing(self, tenant_id: str | None = None) -> list[str]:
        """Partitions that another process counts, or none: of one tenant or of all."""
        wanted = range(self.width)
        if tenant_id is not None:
            wanted = range(self.home(tenant_id), self.home(tenant_id) + 1)
        counted = {(self.topic(tp), tp.partition) for tp in self.open}
        return [f"{t}:{n}" for t in TOPICS for n in wanted if (t, n) not in counted]


class Partitions:
    """Opens and closes the tables; `topic_ids` tell a topic from one created again.

    Raises:
        ConfigError: another process uses the directory, or the disk denies access.
    """

    def __init__(
        self, settings: Settings, topology: Topology, topic_ids: Mapping[str, str]
    ) -> None:
        self._directory = StateDirectory(settings, "analytics", topology.partitions, len(TOPICS))
        self._segment_ms = segment_ms(topology.window_ms)
        self._ids = topic_ids
        self.assignment = Assignment(settings.topic_prefix, topology.partitions, {})
        self.assigned = False
        """Whether the group has given this process its partitions, even if none."""
        self._leaving: dict[TP, CountedPartition] = {}
        self._readers = 0

    def get(self, tp: TP) -> CountedPartition | None:
        """The tables of a partition; None if it is not this process's."""
        return self.assignment.open.get(tp)

    @contextmanager
    def held(self) -> Iterator[Assignment]:
        """The present assignment, whose tables stay open meanwhile, also if partitions go.

        A database that a reader has open could not be opened again when its partition comes back.
        """
        self._readers += 1
        try:
            yield self.assignment
        finally:
            self._readers -= 1
            self._close_unread()

    def take(self, assigned: Collection[TP]) -> Mapping[TP, int]:
        """Open what is assigned, close everything else, and answer the positions.

        Raises:
            ConfigError: the disk denies access, or too few files may be open.
        """
        known = {**self._leaving, **self.assignment.open}
        self._leaving = {tp: counted for tp, counted in known.items() if tp not in assigned}
        self._close_unread()
        opened = {tp: known[tp] if tp in known else self._opened(tp) for tp in assigned}
        self.assignment = replace(self.assignment, open=opened)
        self.assigned = True
        log.info(
            "running", partitions=[f"{self.assignment.topic(tp)}:{tp.partition}" for tp in opened]
        )
        return {tp: counted.position for tp, counted in opened.items()}

    def write(self) -> None:
        """Write what all partitions have counted."""
        for counted in (*self.assignment.open.values(), *self._leaving.values()):
            counted.write()

    def close(self) -> None:
        """Write all, and close each as soon as nothing reads it."""
        self.write()
        self._leaving |= self.assignment.open
        self.assignment = replace(self.assignment, open={})
        self._close_unread()

    def _close_unread(self) -> None:
        while self._leaving and not self._readers:
            self._leaving.popitem()[1].close()

    def _opened(self, tp: TP) -> CountedPartition:
        topic = self.assignment.topic(tp)
        identity = f"input {self._ids[topic]}, partition {tp.partition}, {self._segment_ms}"
        tables = self._directory.open_tables(topic, tp.partition, identity)
        return CountedPartition(tables, self._segment_ms)
