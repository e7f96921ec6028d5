"""What a stage must know of its topics before it starts, and to which topics it may write."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from streams.dead_letter import TOPIC as DLQ
from streams.errors import StageFailed
from streams.kafka.failures import Outage
from streams.runtime.broker_clock import TOPIC as CLOCK
from streams.runtime.stage import AnyStage
from streams.runtime.topic_settings import checked, refuse_unfit
from streams.topology.model import Topology
from streams.topology.partition_counts import refuse_other_counts

log = structlog.get_logger(__name__)

_TIMEOUT = 5.0
_TOMBSTONES_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Changelog:
    """A changelog as the cluster has it.

    `topic_id` distinguishes it from a topic of the same name in another cluster, or one created
    again. `tombstones_ms` is how long deletions stay in it, its `delete.retention.ms`: a store that
    was not brought up to date for longer may have missed some. For a window store it is for ever:
    its bundles keep deletions as they keep all else.
    """

    topic: str
    topic_id: str
    tombstones_ms: float


class Topics:
    """Partition counts of the cluster's topics, by logical name."""

    def __init__(self, admin: AdminClient, prefix: str) -> None:
        self._admin = admin
        self._prefix = prefix
        self._widths: dict[str, int] = {}

    def refresh(self) -> None:
        """Raise KafkaException if no broker answers."""
        found = self._admin.list_topics(timeout=_TIMEOUT).topics
        self._widths = {
            name.removeprefix(self._prefix): len(topic.partitions)
            for name, topic in found.items()
            if name.startswith(self._prefix) and topic.error is None
        }

    def width(self, topic: str) -> int:
        """Number of partitions as last seen; 0 for a topic that is not there."""
        return self._widths.get(topic, 0)

    def exists(self, topic: str, partition: int) -> bool:
        """Whether there is such a partition, asking the broker before saying no."""
        if 0 <= partition < self.width(topic):
            return True
        try:
            self.refresh()
        except KafkaException:
            return True  # unknown: let the transaction find out
        return 0 <= partition < self.width(topic)

    def settings(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """The settings of those topics that exist, by logical name.

        Raises:
            KafkaException: not answered in time.
        """
        names = [self._prefix + topic for topic in topics if self.width(topic)]
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        answers = self._admin.describe_configs(asked, request_timeout=_TIMEOUT)
        return {
            resource.name.removeprefix(self._prefix): {
                name: str(entry.value) for name, entry in future.result().items()
            }
            for resource, future in answers.items()
        }

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The id of each topic, which another one of its name does not have.

        Raises:
            KafkaException: not answered in time, or there is no such topic.
        """
        full = TopicCollection([self._prefix + topic for topic in topics])
        described = self._admin.describe_topics(full, request_timeout=_TIMEOUT)
        return {
            name.removeprefix(self._prefix): str(future.result().topic_id)
            for name, future in described.items()
        }

    def changelogs(self, stage: AnyStage) -> dict[str, Changelog]:
        """The stage's changelogs by logical name.

        Raises:
            KafkaException: not answered in time.
        """
        full = [self._prefix + store.changelog for store in stage.stores]
        if not full:
            return {}
        ids = self.ids(store.changelog for store in stage.stores)
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in full]
        configs = self._admin.describe_configs(asked, request_timeout=_TIMEOUT)
        tombstones = {resource.name: future.result() for resource, future in configs.items()}
        found = {}
        for store in stage.stores:
            name = self._prefix + store.changelog
            entry = tombstones[name].get("delete.retention.ms")
            kept = int(entry.value) if entry is not None and entry.value else _TOMBSTONES_MS
            forgets_after = math.inf if store.kind == "window" else kept
            found[store.changelog] = Changelog(store.changelog, ids[store.changelog], forgets_after)
        return found


class StageTopics:
    """Which of the topics that a stage writes exist.

    Ask the broker before reporting one as gone, and after a failed transaction: a topic may have
    been deleted while in use, and the producer then waits for it in vain.
    """

    def __init__(self, topics: Topics, stage: AnyStage) -> None:
        self._topics = topics
        self._stage = stage.name
        self._doubted = False
        self._required = {store.changelog for store in stage.stores} | {
            topic for topic in stage.writes if "*" not in topic
        }

    def doubt(self) -> None:
        """Ask the broker again at the next question."""
        self._doubted = True

    def exists(self, topic: str, partition: int) -> bool:
        """Whether there is such a partition.

        Raises:
            StageFailed: a topic of the topology is gone; no record is to blame.
        """
        if self._doubted:
            self._doubted = False
            with suppress(KafkaException):
                self._topics.refresh()
        if self._topics.exists(topic, partition):
            return True
        if topic in self._required and not self._topics.width(topic):
            raise StageFailed(
                f"stage {self._stage}: the topic {topic} is gone, and nothing was committed "
                "without it. Make it again (`tidegate topology apply`) and start the stage again"
            )
        return False


def await_topics(
    topics: Topics, stage: AnyStage, topology: Topology, outage: Outage, pause: Callable[[], bool]
) -> dict[str, Changelog] | None:
    """Return the stage's changelogs once all its topics exist; log once what it waits for.

    `pause` waits a moment and answers whether to give up: then None is returned.

    Raises:
        ConfigError: an input, output or changelog has other than its declared number of partitions,
            or a topic's settings would refuse records or carry another time.
    """
    needed = {CLOCK, DLQ, *stage.inputs, *(s.changelog for s in stage.stores)}
    needed |= {topic for topic in stage.writes if "*" not in topic}
    said = False
    while True:
        missing, found = [], None
        try:
            topics.refresh()
            missing = sorted(topic for topic in needed if not topics.width(topic))
            if not missing:
                _check_widths(topics, stage, topology)
                refuse_unfit(stage, topology, topics.settings(checked(stage, topology)))
                found = topics.changelogs(stage)
            outage.answered()
        except KafkaException as error:
            outage.failed(error)
        if found is not None:
            return found
        if missing and not said:
            said = True
            log.warning("topics are missing: waiting (`tidegate topology apply`)", topics=missing)
        if pause():
            return None


def refuse_growth(
    topics: Topics, stage: AnyStage, topology: Topology, assigned: Collection[int]
) -> None:
    """Check that no partition is assigned that the topology does not know.

    Raises:
        ConfigError: the input was given more partitions while the stage ran.
        KafkaException: not answered in time.
    """
    if max(assigned, default=0) >= topology.topics[stage.inputs[0]].partitions:
        topics.refresh()
        _check_widths(topics, stage, topology)


def _check_widths(topics: Topics, stage: AnyStage, topology: Topology) -> None:
    outputs = (topic for topic in stage.writes if "*" not in topic)
    stores = (store.changelog for store in stage.stores)
    used = dict.fromkeys((*stage.inputs, *outputs, *stores))
    refuse_other_counts(f"stage {stage.name}", topology, used, topics.width)
