"""A topology's topics as they are on a Kafka cluster, and as they should be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConfigResource, TopicMetadata

from streams.errors import KafkaUnavailable, TidegateError
from streams.topology.model import CHANGELOG_DELETE_RETENTION_MS, Topic

REPLICATION = 3
MIN_IN_SYNC = 2
TIMEOUT_SECONDS = 15

_MIB = 1024 * 1024
_ANY_DISTANCE_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ClusterTopic:
    """A topic that exists; `replication` is that of its least replicated partition.

    `led` counts the partitions that have a leader: only those can be written and read.
    """

    partitions: int
    replication: int
    led: int = 0
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a cluster has: its brokers and, by full name, its topics.

    Only topics that were asked for have a `config`.
    """

    brokers: int
    topics: Mapping[str, ClusterTopic]


def topic_config(topic: Topic, replicated: bool) -> dict[str, str]:
    """Broker settings of a topic; `replicated` says that it has three replicas.

    Every setting on which a guarantee depends is stated, so that no cluster's default decides it:
    no unclean election and two in-sync replicas keep acknowledged records (G1), and no size limit
    shortens a retention. Kafka cleans only closed segments, so segments are short-lived.
    """
    return {
        "cleanup.policy": topic.cleanup,
        "retention.ms": str(-1 if topic.retention_ms is None else topic.retention_ms),
        "retention.bytes": "-1",
        "message.timestamp.type": "LogAppendTime" if topic.timestamp == "append" else "CreateTime",
        # The broker must not refuse records because a producer's clock is wrong.
        "message.timestamp.before.max.ms": str(_ANY_DISTANCE_MS),
        "message.timestamp.after.max.ms": str(_ANY_DISTANCE_MS),
        "max.message.bytes": str(topic.max_message_bytes),
        "min.insync.replicas": str(MIN_IN_SYNC if replicated else 1),
        "unclean.leader.election.enable": "false",
        "compression.type": "producer",
        **_segments(topic),
        **(_compaction(topic) if "compact" in topic.cleanup else {}),
    }


def _segments(topic: Topic) -> dict[str, str]:
    mib = 64 if topic.retention_ms is None else 256
    return {"segment.ms": str(topic.segment_ms), "segment.bytes": str(mib * _MIB)}


def _compaction(topic: Topic) -> dict[str, str]:
    # A restore also reads what is not yet compacted: allow a fifth of dirt at most.
    settings = {
        "min.cleanable.dirty.ratio": "0.2",
        "delete.retention.ms": str(CHANGELOG_DELETE_RETENTION_MS),
    }
    if topic.compaction_lag_ms is None:
        return settings
    # KIP-354: compact however little dirt there is. An open segment is never compacted; the first
    # record after its time closes it. With a time of one second, a process that deletes a record
    # can close the segment by writing another.
    lag = {"max.compaction.lag.ms": str(topic.compaction_lag_ms), "segment.ms": "1000"}
    return {**settings, **lag}


def read_cluster(admin: AdminClient, names: Iterable[str]) -> Cluster:
    """The cluster's brokers and topics, with the settings of those in `names` that exist.

    Raises:
        KafkaUnavailable: no broker answers.
        TidegateError: the cluster refuses to answer (an ACL, say).
    """
    try:
        metadata = admin.list_topics(timeout=TIMEOUT_SECONDS)
        known = metadata.topics
        names = list(names)
        _refuse_hidden(admin, [name for name in names if name not in known])
        configs = _read_configs(admin, [name for name in names if name in known])
    except KafkaException as error:
        raise told(error, "read the cluster") from error
    # One broker may list a topic that another one does not know yet, or no longer.
    unknown = (known.keys() & set(names)) - configs.keys()
    found = cluster_of(metadata, configs)
    return replace(found, topics={n: t for n, t in found.topics.items() if n not in unknown})


def cluster_of(metadata: ClusterMetadata, configs: Mapping[str, Mapping[str, str]]) -> Cluster:
    """The cluster that a broker's answer shows, with these settings of topics."""
    known = metadata.topics
    topics = {name: _topic(found, configs.get(name, {})) for name, found in known.items()}
    return Cluster(len(metadata.brokers), topics)


def _topic(found: TopicMetadata, config: Mapping[str, str]) -> ClusterTopic:
    partitions = found.partitions.values()
    return ClusterTopic(
        partitions=len(partitions),
        replication=min((len(p.replicas) for p in partitions), default=0),
        led=sum(p.leader >= 0 for p in partitions),
        config=config,
    )


def _refuse_hidden(admin: AdminClient, names: list[str]) -> None:
    """Check the user's rights: Kafka reports a topic without Describe as missing."""
    if not names:
        return
    asked = TopicCollection(names)
    for name, future in admin.describe_topics(asked, request_timeout=TIMEOUT_SECONDS).items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise told(error, "read the cluster", f"Describe on topic {name}") from error


def _read_configs(admin: AdminClient, names: list[str]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    if not resources:
        return {}
    futures = admin.describe_configs(resources, request_timeout=TIMEOUT_SECONDS)
    configs = {}
    for resource, future in futures.items():
        try:
            entries = future.result().values()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            # `AlterConfigs`, which the user `topology` has, includes it.
            needed = f"DescribeConfigs or AlterConfigs on topic {resource.name}"
            raise told(error, "read the cluster", needed) from error
        configs[resource.name] = {entry.name: str(entry.value) for entry in entries}
    return configs


def told(error: KafkaException, doing: str, right: str = "") -> TidegateError:
    """A Kafka client's error as ours, with the failed action and the next step.

    `right` is what the action needs, such as `Create on topic events`.
    """
    cause: KafkaError = error.args[0]
    away: tuple[Any, ...] = (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
    )
    if cause.code() in away:
        return KafkaUnavailable(
            f"cannot {doing}: no Kafka broker answers ({cause.str()}); start one with "
            "`tidegate broker start`, or name another with --bootstrap"
        )
    if cause.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return TidegateError(
            f"cannot {doing}: {right} is missing ({cause.name()}). `tidegate topology describe "
            "--acls` prints what grants the user `topology` its rights; or connect as a user that "
            "may alter topics (TIDEGATE_KAFKA_*)"
        )
    return TidegateError(
        f"cannot {doing}: {cause.str()} ({cause.name()}); correct that on the cluster, or "
        "connect as a user that may alter topics (TIDEGATE_KAFKA_*)"
    )
