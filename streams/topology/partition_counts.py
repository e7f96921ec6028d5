"""Whether the cluster's topics have as many partitions as the topology declares.

A process that writes a record keyed by tenant computes its partition from the declared number. If
the broker has another number, no stage looks for that tenant there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streams.errors import ConfigError
from streams.topology.model import Topology
from streams.topology.rights import topics_of


def refuse_other_counts(
    who: str, topology: Topology, topics: Iterable[str], count: Callable[[str], int]
) -> None:
    """Check topics by logical name; `count` returns the cluster's number, 0 for an unseen topic.

    Raises:
        ConfigError: one has another number of partitions than declared.
    """
    for topic in topics:
        found, declared = count(topic), topology.topics[topic].partitions
        if found not in (0, declared):
            raise ConfigError(
                f"{who}: {topic} has {found} partitions, topology.yaml says {declared}: keys would "
                f"not meet their state. Declare {found}, or see `tidegate topology plan` for what "
                "a change takes"
            )


def keyed_topics(process: str, topology: Topology) -> list[str]:
    """The topics that a process reads or writes of which every tenant has one partition."""
    used = topics_of(process, topology, "Read", "Write")
    return [t.name for t in topology.topics.values() if t.name in used]
