"""The partitions that this process counts: opened when they are assigned, closed when they go."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

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


class Partitions:
    """By topic (without prefix) and number; `topic_ids` tell a topic from one created again.

    Raises:
        ConfigError: another process uses the directory, or the disk denies access.
    """

    def __init__(
        self, settings: Settings, topology: Topology, topic_ids: Mapping[str, str]
    ) -> None:
        self._prefix = settings.topic_prefix
        self._directory = StateDirectory(settings, "analytics", topology.partitions, len(TOPICS))
        self._width = topology.partitions
        self._segment_ms = segment_ms(topology.window_ms)
        self._ids = topic_ids
        self._open: dict[TP, CountedPartition] = {}
        self.assigned = False
        """Whether the group has given this process its partitions, even if none."""

    def get(self, tp: TP) -> CountedPartition | None:
        """The tables of a partition; None if it is not this process's."""
        return self._open.get(tp)

    def topic(self, tp: TP) -> str:
        """The topic's name in the topology."""
        return str(tp.topic).removeprefix(self._prefix)

    def of(self, topic: str) -> Iterator[tuple[int, CountedPartition]]:
        """The partitions of a topic that this process counts."""
        for tp, counted in sorted(self._open.items()):
            if self.topic(tp) == topic:
                yield tp.partition, counted

    def home(self, tenant_id: str) -> int:
        """The partition in which a tenant's records are, on every topic."""
        return partition_for(tenant_id, self._width)

    def missing(self, tenant_id: str | None = None) -> list[str]:
        """Partitions that another process counts, or none: of one tenant or of all."""
        wanted = range(self._width)
        if tenant_id is not None:
            wanted = range(self.home(tenant_id), self.home(tenant_id) + 1)
        counted = {(self.topic(tp), tp.partition) for tp in self._open}
        return [f"{t}:{n}" for t in TOPICS for n in wanted if (t, n) not in counted]

    def take(self, assigned: Collection[TP]) -> Mapping[TP, int]:
        """Open what is assigned, close everything else, and answer the positions.

        Raises:
            ConfigError: the disk denies access, or too few files may be open.
        """
        for tp in self._open.keys() - set(assigned):
            self._open.pop(tp).close()
        for tp in assigned:
            if tp not in self._open:
                self._open[tp] = self._opened(tp)
        self.assigned = True
        log.info("running", partitions=[f"{self.topic(tp)}:{tp.partition}" for tp in self._open])
        return {tp: counted.position for tp, counted in self._open.items()}

    def write(self) -> None:
        """Write what all partitions have counted."""
        for counted in self._open.values():
            counted.write()

    def close(self) -> None:
        """Write and close all."""
        while self._open:
            self._open.popitem()[1].close()

    def _opened(self, tp: TP) -> CountedPartition:
        topic = self.topic(tp)
        identity = f"input {self._ids[topic]}, partition {tp.partition}, {self._segment_ms}"
        tables = self._directory.open_tables(topic, tp.partition, identity)
        return CountedPartition(tables, self._segment_ms)
