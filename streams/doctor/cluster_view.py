"""Looks at brokers, topics and their settings; asks Kafka to describe things, and for no more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartitionInfo
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConfigResource

from streams.doctor.looking import ANSWER_SECONDS
from streams.errors import KafkaUnavailable
from streams.kafka.admin import LeaderCachingAdmin
from streams.kafka.failures import DENIED, MISSING
from streams.kafka.first_contact import note_reason
from streams.settings import Settings
from streams.topology.cluster import Cluster, cluster_of
from streams.topology.model import Topology

OFFSETS = "__consumer_offsets"
"""Where Kafka keeps the positions of groups."""
INTERNAL = (OFFSETS, "__transaction_state")
"""Kafka's own topics on which positions and transactions rely."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers by id, with their addresses; `controller` is None if none is named.

    `internal` has the replicas of Kafka's own topics, as far as they exist and may be seen.
    """

    nodes: Mapping[int, str]
    controller: int | None
    internal: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """The declared topics by full name; `hidden` may not be seen, for lack of the right named.

    `cluster` also has the names of others. `operations` are what the user may do on a topic.
    """

    cluster: Cluster
    partitions: Mapping[str, Sequence[TopicPartitionInfo]]
    operations: Mapping[str, frozenset[str]]
    hidden: Mapping[str, str]


BrokerSettings = Mapping[int, Mapping[str, str | None]]
"""Each broker's settings by its id."""


def patient_client(settings: Settings, reasons: list[KafkaError] | None = None) -> AdminClient:
    """A client that waits no longer for anything than a look lasts; `reasons` gets its errors."""
    heard: dict[str, Any] = {"socket.timeout.ms": round(ANSWER_SECONDS * 1000)}
    if reasons is not None:
        heard["error_cb"] = partial(note_reason, reasons)
    return LeaderCachingAdmin(settings.client(**heard))


def read_metadata(settings: Settings) -> ClusterMetadata:
    """The first answer of any broker.

    Raises:
        KafkaUnavailable: none answers, or none can be asked; the message says why.
    """
    reasons: list[KafkaError] = []
    try:
        admin = patient_client(settings, reasons)
    except KafkaException as error:
        raise KafkaUnavailable(f"the client refuses its settings: {error.args[0].str()}") from error
    try:
        return admin.list_topics(timeout=ANSWER_SECONDS)
    except KafkaException as error:
        admin.poll(0)  # hands over the reasons
        silence = f"no answer came within {ANSWER_SECONDS:g} s"
        raise KafkaUnavailable(reasons[0].str() if reasons else silence) from error


def brokers_in(metadata: ClusterMetadata) -> Brokers:
    nodes = {node.id: f"{node.host}:{node.port}" for node in metadata.brokers.values()}
    known = cluster_of(metadata, {}).topics
    internal = {name: known[name].replication for name in INTERNAL if name in known}
    controller = metadata.controller_id
    return Brokers(nodes, controller if controller in nodes else None, internal)


def read_broker_settings(admin: AdminClient, ids: Iterable[int]) -> BrokerSettings:
    """The settings of each broker; a broker answers for itself alone."""
    asked = {id_: ConfigResource(ConfigResource.Type.BROKER, str(id_)) for id_ in ids}
    answers = {
        id_: admin.describe_configs([resource], request_timeout=ANSWER_SECONDS)[resource]
        for id_, resource in asked.items()
    }
    return {
        id_: {entry.name: entry.value for entry in answer.result().values()}
        for id_, answer in answers.items()
    }


def read_topics(
    admin: AdminClient, metadata: ClusterMetadata, topology: Topology, prefix: str
) -> TopicsSeen:
    """The declared topics: their partitions, settings, and the user's rights on them."""
    names = [prefix + name for name in topology.topics]
    described = admin.describe_topics(
        TopicCollection(names), include_authorized_operations=True, request_timeout=ANSWER_SECONDS
    )
    hidden: dict[str, str] = {}
    topics = _allowed(described, "Describe", hidden)
    configs = _configs(admin, list(topics), hidden)
    return TopicsSeen(
        cluster_of(metadata, configs),
        {name: topic.partitions for name, topic in topics.items()},
        {name: operations(topic.authorized_operations) for name, topic in topics.items()},
        hidden,
    )


def _configs(
    admin: AdminClient, names: list[str], hidden: dict[str, str]
) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    if not resources:
        return {}
    answers = admin.describe_configs(resources, request_timeout=ANSWER_SECONDS)
    by_name = {resource.name: answer for resource, answer in answers.items()}
    found = _allowed(by_name, "DescribeConfigs", hidden)
    return {name: {e.name: str(e.value) for e in each.values()} for name, each in found.items()}


def _allowed(
    answers: Mapping[str, Future[Any]], right: str, hidden: dict[str, str]
) -> dict[str, Any]:
    """The answers about topics that exist and may be seen; those that may not go to `hidden`."""
    found = {}
    for name, answer in answers.items():
        try:
            found[name] = answer.result()
        except KafkaException as error:
            code = error.args[0].code()
            if code in DENIED:
                hidden[name] = right
            elif code not in MISSING:
                raise
    return found


def operations(given: Sequence[Any] | None) -> frozenset[str]:
    """Kafka's operations by name, such as `DESCRIBE_CONFIGS`."""
    return frozenset(each.name for each in given or ())
