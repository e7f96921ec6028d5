"""What the brokers say of the replicas of Tidegate's topics, as this process is told.

Only the topics of the topology are asked for, and those that the process may not see are left out.
A silent broker changes no number: `tidegate_broker_silent_seconds` tells how old the numbers are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, TopicCollection, TopicPartitionInfo
from confluent_kafka.admin import AdminClient
from prometheus_client.core import GaugeMetricFamily

from streams.kafka.admin import admin_client
from streams.kafka.failures import DENIED, MISSING
from streams.process.boot_clock import boot_seconds
from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings
from streams.telemetry import ScrapedCollector
from streams.topology.cluster import MIN_IN_SYNC, REPLICATION
from streams.topology.model import Topology

_EVERY_SECONDS = 10.0
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ReplicaHealth:
    """Partitions in numbers; `behind` counts by broker the replicas that are not in sync."""

    partitions: int = 0
    under_replicated: int = 0
    below_min_in_sync: int = 0
    leaderless: int = 0
    behind: dict[int, int] = field(default_factory=dict)


class BrokerView(ScrapedCollector):
    """Asks the brokers from `start` to `stop`; collects what they last said."""

    def __init__(
        self,
        admin: AdminClient,
        topics: Iterable[str],
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._admin = admin
        self._topics = sorted(topics)
        self._clock = clock
        self._health: ReplicaHealth | None = None
        self._heard_at = clock()
        self._thread = DaemonThread("broker view", self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End, at most after the question that is under way."""
        self._thread.stop(1)

    def look(self) -> None:
        """Ask once, and keep the answer; without one, what was heard before stays."""
        asked = TopicCollection(self._topics)
        try:
            answers = self._admin.describe_topics(asked, request_timeout=_PATIENCE_SECONDS)
            found = [part for answer in answers.values() for part in _partitions(answer)]
        except KafkaException:
            return  # the follower of the read model logs that no broker answers
        self._health, self._heard_at = health(found), self._clock()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        silent = self._clock() - self._heard_at
        yield _gauge("silent_seconds", "How long no broker has answered this question", silent)
        if (found := self._health) is None:
            return
        yield _gauge("partitions", "Partitions of Tidegate's topics", found.partitions)
        yield _gauge(
            "under_replicated_partitions",
            "Those of which a replica is not in sync",
            found.under_replicated,
        )
        yield _gauge(
            "below_min_in_sync_partitions",
            "Those that take no record: too few in sync",
            found.below_min_in_sync,
        )
        yield _gauge("leaderless_partitions", "Those that have no leader", found.leaderless)
        behind = GaugeMetricFamily(
            "tidegate_broker_replicas_behind", "Replicas that are not in sync", labels=["broker"]
        )
        for broker, replicas in sorted(found.behind.items()):
            behind.add_metric([str(broker)], replicas)
        yield behind

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            self.look()
            self._thread.stopping.wait(_EVERY_SECONDS)


def broker_view(settings: Settings, topology: Topology) -> BrokerView:
    """Return the view of a process on the topics of its topology."""
    return BrokerView(
        admin_client(settings), [settings.topic_prefix + name for name in topology.topics]
    )


def health(partitions: Iterable[TopicPartitionInfo]) -> ReplicaHealth:
    """Count partitions by what is wrong with them.

    `topology apply` demands `MIN_IN_SYNC` replicas in sync of a topic with all replicas, and one of
    any other.
    """
    found = [
        (part.leader, {node.id for node in part.replicas}, {node.id for node in part.isr})
        for part in partitions
    ]
    return ReplicaHealth(
        partitions=len(found),
        under_replicated=sum(in_sync < replicas for _, replicas, in_sync in found),
        below_min_in_sync=sum(len(in_sync) < _least(replicas) for _, replicas, in_sync in found),
        leaderless=sum(leader is None or leader.id < 0 for leader, _, _ in found),
        behind=dict(Counter(b for _, replicas, in_sync in found for b in replicas - in_sync)),
    )


def _least(replicas: set[int]) -> int:
    return MIN_IN_SYNC if len(replicas) >= REPLICATION else 1


def _partitions(answer: Future[Any]) -> list[TopicPartitionInfo]:
    """Return a topic's partitions; none if it does not exist or may not be seen."""
    try:
        return list(answer.result().partitions)
    except KafkaException as error:
        if error.args[0].code() in MISSING | DENIED:
            return []
        raise


def _gauge(name: str, help_: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tidegate_broker_{name}", help_, value=float(value))
