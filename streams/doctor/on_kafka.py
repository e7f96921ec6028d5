"""The part of the round that asks Kafka: its looks begin together, then are waited for."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from confluent_kafka.admin import AdminClient, ClusterMetadata

from streams.doctor import brokers, clocks, configuration, groups, rights, topics
from streams.doctor.clock_view import ClocksSeen, kept_memories, read_clocks
from streams.doctor.cluster_view import (
    Brokers,
    BrokerSettings,
    TopicsSeen,
    brokers_in,
    patient_client,
    read_broker_settings,
    read_topics,
)
from streams.doctor.commands import Commands
from streams.doctor.finding import Check, Finding, Unseen, counted
from streams.doctor.group_view import GroupsSeen, read_groups
from streams.doctor.looking import Look, judged
from streams.doctor.secret_view import SecretsSeen, Tenants, read_secrets
from streams.doctor.subject import Subject
from streams.errors import ConfigError
from streams.kafka.offsets import Place
from streams.tenants.follower import TOPIC as TENANTS
from streams.topology.cluster import REPLICATION
from streams.topology.model import Topology
from streams.topology.rights import rights_of

_STAGES = Check("stages", "groups")
_TOPICS = Check("topics", "topics")
_CLOCKS = Check("clocks", "clocks")
_ALL = (_TOPICS, rights.TOPICS, _STAGES, _CLOCKS)


def _checks(subject: Subject) -> tuple[Check, ...]:
    """Those that need a broker and the topology."""
    opens = configuration.opens_vault(subject.settings, subject.stage)
    return (*_ALL, configuration.SEALED) if opens else _ALL


def unreached(subject: Subject, why: Unseen) -> Iterator[Finding]:
    """No broker answers: nothing on Kafka can be looked at."""
    yield brokers.REACH.fail(
        f"no broker answers at {subject.settings.bootstrap} ({why.why})",
        f"{_start(subject)}, or name another with --bootstrap (TIDEGATE_BOOTSTRAP); check "
        "TIDEGATE_KAFKA_SECURITY_PROTOCOL and its settings",
    )
    for check in _checks(subject):
        yield check.skipped("no broker answers")


def _start(subject: Subject) -> str:
    """What starts the brokers that are meant; an embedded one is no substitute for others."""
    if subject.commands.dev:
        return f"start dev again as `{subject.commands.start_dev()}`"
    if "bootstrap" in subject.settings.model_fields_set and subject.embedded is None:
        return f"start the brokers at {subject.settings.bootstrap}"
    data_dir = str(subject.settings.data_dir)
    start = shlex.join(["tidegate", "broker", "start", "--data-dir", data_dir])
    return f"give --data-dir if `tidegate dev` runs in another folder, start one with `{start}`"


def on_kafka(subject: Subject, metadata: ClusterMetadata) -> Iterator[Finding]:
    """All that brokers can tell, once one has answered."""
    admin = patient_client(subject.settings)
    found = brokers_in(metadata)
    settings = Look(
        "the brokers' settings",
        partial(read_broker_settings, admin, found.nodes),
        "DescribeConfigs on the cluster",
    )
    if isinstance(subject.topology, ConfigError):
        validate = subject.commands.on_topology("topology", "validate")
        invalid = Unseen("the topology is not valid", validate)
        rest = [check.unseen(invalid) for check in _checks(subject)]
        topology = None
    else:
        topology = subject.topology.topology
        seen = _look(subject, topology, admin, metadata)
        rest = [*_with_topology(subject, topology, metadata, seen)]
    yield brokers.REACH.ok(
        f"{counted(len(found.nodes), 'broker')} at {subject.settings.bootstrap} "
        f"(cluster {metadata.cluster_id})"
    )
    yield from _of_brokers(subject, topology, found, settings.seen())
    yield from rest


def _of_brokers(
    subject: Subject,
    topology: Topology | None,
    found: Brokers,
    settings: BrokerSettings | Unseen,
) -> Iterator[Finding]:
    yield from brokers.number(found, embedded=subject.embedded is not None)
    if subject.embedded is None:  # the embedded brokers are their own controllers
        yield from brokers.controller(found, settings, subject.settings.bootstrap)
    yield from brokers.version(settings, subject.embedded)
    yield from brokers.internal_topics(found)
    yield from judged(
        brokers.SETTINGS,
        lambda seen: brokers.broker_settings(seen, subject.settings, topology),
        settings,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the looks at one topology's topics and groups gave; no `secrets` without vault keys."""

    leaders: Mapping[Place, int]
    topics: TopicsSeen | Unseen
    groups: GroupsSeen | Unseen
    clocks: ClocksSeen | Unseen
    secrets: SecretsSeen | Unseen | None


def _look(
    subject: Subject, topology: Topology, admin: AdminClient, metadata: ClusterMetadata
) -> _Seen:
    """Topics, groups, clocks and secrets: begun together, then waited for."""
    prefix = subject.settings.topic_prefix
    led = _leaders(topology, metadata, prefix)
    appended = [place for place in led if topology.topics[place[0]].timestamp == "append"]
    tenants = [place for place in led if place[0] == TENANTS]
    memories = kept_memories(subject.settings.data_dir)
    names, read = groups.names(topology), _read(topology, led)
    looks = (
        Look("topics", partial(read_topics, admin, metadata, topology, prefix), _ON_TOPICS),
        Look(
            "groups", partial(read_groups, admin, prefix, names, read, metadata.topics), _ON_GROUPS
        ),
        Look("clocks", partial(read_clocks, admin, prefix, appended, memories), _ON_TOPICS),
        _secrets(subject, topology, admin, Tenants(tenants, metadata.topics)),
    )
    kept = None if looks[3] is None else looks[3].seen()
    return _Seen(led, looks[0].seen(), looks[1].seen(), looks[2].seen(), kept)


def _secrets(
    subject: Subject, topology: Topology, admin: AdminClient, seen: Tenants
) -> Look[SecretsSeen] | None:
    if not configuration.opens_vault(subject.settings, subject.stage):
        return None
    # librdkafka asks for the coordinator of a group that the user must be allowed to see.
    group = subject.stage or "operator"
    width = topology.topics[TENANTS].partitions
    look = partial(read_secrets, subject.settings, admin, group, width, seen)
    return Look("sealed secrets", look, f"Read on topic tenants, or Describe on group {group}")


_ON_TOPICS = "Describe on topics"
_ON_GROUPS = "Describe on groups and topics"


def _with_topology(
    subject: Subject, topology: Topology, metadata: ClusterMetadata, seen: _Seen
) -> Iterator[Finding]:
    prefix, address = subject.settings.topic_prefix, subject.settings.bootstrap
    apply = _apply(subject, len(metadata.brokers))
    yield from judged(_TOPICS, partial(_of_topics, topology, prefix, apply), seen.topics)
    yield from _of_rights(subject, topology, seen)
    of_groups = partial(_of_groups, topology, address, prefix, subject.commands)
    yield from judged(_STAGES, of_groups, seen.groups)
    yield from judged(_CLOCKS, partial(_of_clocks, seen.leaders), seen.clocks)
    if seen.secrets is not None:
        yield from judged(configuration.SEALED, configuration.sealed, seen.secrets)


def _of_rights(subject: Subject, topology: Topology, seen: _Seen) -> Iterator[Finding]:
    prefix, stage = subject.settings.topic_prefix, subject.stage
    wanted = rights_of(stage or "", topology, prefix)
    acls = subject.commands.on_topology("topology", "describe", "--acls")
    if not wanted:
        yield rights.unknown(stage, acls)
        return
    yield from judged(rights.TOPICS, partial(rights.of_topics, wanted, acls), seen.topics)
    yield from judged(rights.GROUPS, partial(rights.of_groups, wanted, prefix, acls), seen.groups)
    yield from rights.of_transactions(wanted, acls)


def _apply(subject: Subject, count: int) -> str:
    """The command that makes the topics of this very cluster as declared, to be pasted."""
    alone = ("--allow-unsafe",) if subject.embedded and count < REPLICATION else ()
    return subject.commands.on_kafka("topology", "apply", *alone)


def _of_topics(topology: Topology, prefix: str, apply: str, seen: TopicsSeen) -> Iterator[Finding]:
    yield from topics.hidden(seen)
    yield from topics.declared(topology, seen, prefix, apply)
    yield from topics.co_partitioned(topology, seen, prefix)
    yield from topics.replicas(seen)


def _of_groups(
    topology: Topology, address: str, prefix: str, commands: Commands, seen: GroupsSeen
) -> Iterator[Finding]:
    yield from groups.stages(topology, seen, prefix, commands)
    yield from groups.transactions(seen, address, prefix)


def _of_clocks(leaders: Mapping[Place, int], seen: ClocksSeen) -> Iterator[Finding]:
    yield from clocks.this_machine(seen)
    yield from clocks.broker(seen)
    yield from clocks.among(seen, leaders)


def _leaders(topology: Topology, metadata: ClusterMetadata, prefix: str) -> dict[Place, int]:
    """The leader of each partition of a declared topic that has one, as far as they may be seen."""
    known = {name: metadata.topics.get(prefix + name) for name in topology.topics}
    return {
        (name, number): part.leader
        for name, found in known.items()
        if found is not None
        for number, part in found.partitions.items()
        if part.leader >= 0
    }


def _read(topology: Topology, led: Iterable[Place]) -> list[Place]:
    """The inputs of stages, which alone have positions to compare with."""
    read = {topic for stage in topology.stages.values() for topic in stage.reads}
    return [place for place in led if place[0] in read]
