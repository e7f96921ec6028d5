"""What `apply` would do: the difference between a topology and a cluster, as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import TypeVar

from streams.topology import retired
from streams.topology.cluster import MIN_IN_SYNC, REPLICATION, Cluster, ClusterTopic, topic_config
from streams.topology.model import Topic, Topology


@dataclass(frozen=True, slots=True)
class Consent:
    """What the operator explicitly allows; the default allows nothing that can lose or move data.

    `unsafe` accepts fewer than three replicas, `partition_change` accepts more partitions, `delete`
    names topics to delete (without the prefix), and `shorter_retention` accepts settings by which
    Kafka deletes records that it keeps now.
    """

    unsafe: bool = False
    partition_change: bool = False
    delete: tuple[str, ...] = ()
    shorter_retention: bool = False


@dataclass(frozen=True, slots=True)
class CreateTopic:
    topic: str
    partitions: int
    replication: int
    config: Mapping[str, str]

    def __str__(self) -> str:
        return f"create {self.topic} ({self.partitions} partitions, {self.replication} replicas)"


@dataclass(frozen=True, slots=True)
class ChangeConfig:
    topic: str
    setting: str
    before: str | None
    after: str

    def __str__(self) -> str:
        return f"change {self.topic}: {self.setting} from {self.before} to {self.after}"


@dataclass(frozen=True, slots=True)
class AddPartitions:
    topic: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"add partitions to {self.topic}: from {self.before} to {self.after}"


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    topic: str

    def __str__(self) -> str:
        return f"delete {self.topic}"


Step = CreateTopic | ChangeConfig | AddPartitions | DeleteTopic
StepT = TypeVar("StepT", CreateTopic, ChangeConfig, AddPartitions, DeleteTopic)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A step that the cluster's state forbids: `topic` (empty for the whole cluster) and why."""

    topic: str
    why: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.why}" if self.topic else self.why


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, refusals (with any, nothing is applied), and remarks without effect."""

    steps: tuple[Step, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the cluster already is as declared."""
        return not self.steps and not self.refusals

    def of(self, kind: type[StepT]) -> list[StepT]:
        return [step for step in self.steps if isinstance(step, kind)]


def compare(topology: Topology, cluster: Cluster, prefix: str, consent: Consent) -> Plan:
    """The plan that makes the cluster's topics those of the topology.

    Only settings that `topic_config` declares are compared; topics that the file does not
    name are left alone.
    """
    found: list[Step | Refusal] = []
    for topic in topology.topics.values():
        name = prefix + topic.name
        existing = cluster.topics.get(name)
        if existing is None:
            found.append(_create(topic, name, cluster))
        else:
            found += _differences(topic, name, existing, consent)
    if any(isinstance(step, CreateTopic) for step in found):
        found = [*_brokers(cluster, consent), *found]
    found += _deletions(topology, cluster, prefix, consent)
    return Plan(
        steps=tuple(item for item in found if not isinstance(item, Refusal)),
        refusals=tuple(item for item in found if isinstance(item, Refusal)),
        notes=tuple(_notes(topology, cluster, prefix, consent)),
    )


def _brokers(cluster: Cluster, consent: Consent) -> Iterator[Step | Refusal]:
    """Whether new topics can have their replicas; Kafka lists only the brokers that run."""
    if cluster.brokers < REPLICATION and not consent.unsafe:
        count = f"{cluster.brokers} broker" + ("s" if cluster.brokers != 1 else "")
        yield Refusal(
            "",
            f"the cluster has {count}, and acknowledged records are safe only on {REPLICATION} "
            f"replicas with {MIN_IN_SYNC} in sync; add brokers, start those that are down, or "
            "accept that one lost disk loses them with --allow-unsafe",
        )


def _create(topic: Topic, name: str, cluster: Cluster) -> Step:
    replication = min(REPLICATION, cluster.brokers)
    config = topic_config(topic, replicated=replication == REPLICATION)
    return CreateTopic(name, topic.partitions, replication, config)


def _differences(
    topic: Topic, name: str, existing: ClusterTopic, consent: Consent
) -> Iterator[Step | Refusal]:
    yield from _partitions(topic, name, existing, consent)
    replicated = existing.replication >= REPLICATION
    if not replicated and not consent.unsafe:
        yield Refusal(
            name,
            f"has {existing.replication} of {REPLICATION} replicas; add some with Kafka's "
            "kafka-reassign-partitions, or accept the risk with --allow-unsafe",
        )
    for setting, wanted in topic_config(topic, replicated).items():
        actual = existing.config.get(setting)
        if same_setting(actual, wanted):
            continue
        if _deletes(setting, actual, wanted) and not consent.shorter_retention:
            yield Refusal(
                name,
                f"has {setting} {actual}, the file says {wanted}: Kafka would delete records that "
                "it keeps now; allow it with --allow-shorter-retention",
            )
        else:
            yield ChangeConfig(name, setting, actual, wanted)


def _deletes(setting: str, actual: str | None, wanted: str) -> bool:
    """Whether records that are kept under the actual value may be deleted under the wanted one."""
    if actual is None:
        return False
    if setting == "cleanup.policy":
        return not set(wanted.split(",")) <= set(actual.split(","))
    return setting == "retention.ms" and _kept_ms(wanted) < _kept_ms(actual)


def _kept_ms(retention: str) -> float:
    return inf if retention == "-1" else float(retention)


def _partitions(
    topic: Topic, name: str, existing: ClusterTopic, consent: Consent
) -> Iterator[Step | Refusal]:
    if topic.partitions == existing.partitions:
        return
    change = f"has {existing.partitions} partitions, the file says {topic.partitions}"
    if topic.partitions < existing.partitions:
        yield Refusal(
            name,
            f"{change}: Kafka cannot remove partitions; declare {existing.partitions}, or start "
            "anew under another topic_prefix",
        )
    elif not consent.partition_change:
        yield Refusal(name, f"{change}: {_MOVES}; allow it with --allow-partition-change")
    else:
        yield AddPartitions(name, existing.partitions, topic.partitions)


_MOVES = (
    "keys move, tenants get other partitions while their dedup keys, jobs, ledger and records in "
    "flight stay behind, so that duplicates pass and jobs stall; drain the pipeline first"
)


def same_setting(actual: str | None, wanted: str) -> bool:
    """Whether a topic's setting has the wanted value, however the broker spells it."""
    if actual is None or actual == wanted:
        return actual == wanted
    # `compact,delete` is a set; numbers come back in the broker's own spelling.
    if set(actual.split(",")) == set(wanted.split(",")):
        return True
    try:
        return float(actual) == float(wanted)
    except ValueError:
        return False


def _deletions(
    topology: Topology, cluster: Cluster, prefix: str, consent: Consent
) -> Iterator[Step | Refusal]:
    for name in dict.fromkeys(consent.delete):
        if name in topology.topics:
            yield Refusal(prefix + name, "is declared; take it out of the file before --delete")
        elif (prefix + name).startswith("__"):
            yield Refusal(prefix + name, "is Kafka's own; it is never deleted from here")
        elif prefix + name in cluster.topics:
            yield DeleteTopic(prefix + name)


def _notes(topology: Topology, cluster: Cluster, prefix: str, consent: Consent) -> Iterator[str]:
    for name in dict.fromkeys(consent.delete):
        if name not in topology.topics and prefix + name not in cluster.topics:
            yield f"{prefix + name} is not on the cluster: nothing to delete"
    declared = {prefix + name for name in (*topology.topics, *consent.delete)}
    strangers = [name for name in cluster.topics if prefix and name.startswith(prefix)]
    for name in sorted(set(strangers) - declared):
        if not retired.is_retired(name.removeprefix(prefix)):
            yield f"{name} carries the prefix but is not declared: left alone"
    yield from retired.notes(cluster.topics, prefix, consent.delete)
