"""Makes a cluster's topics those of a topology; a second run finds nothing to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from streams.errors import TidegateError
from streams.kafka.admin import admin_client
from streams.settings import Settings
from streams.topology.cluster import TIMEOUT_SECONDS, Cluster, read_cluster, told
from streams.topology.model import Topology
from streams.topology.plan import (
    AddPartitions,
    ChangeConfig,
    Consent,
    CreateTopic,
    DeleteTopic,
    Plan,
    Step,
    compare,
    same_setting,
)

_SETTLE_SECONDS = 60
_POLL_SECONDS = 0.1


def plan(
    topology: Topology, admin: AdminClient, prefix: str = "", consent: Consent | None = None
) -> Plan:
    """What `apply` would do to the cluster; changes nothing.

    Raises:
        KafkaUnavailable: no broker answers.
        TidegateError: the cluster refuses to answer.
    """
    cluster = read_cluster(admin, [prefix + name for name in topology.topics])
    return compare(topology, cluster, prefix, consent or Consent())


def apply(topology: Topology, settings: Settings, consent: Consent | None = None) -> Plan:
    """Carry the plan out, wait until the cluster shows it, and return the plan.

    Raises:
        TidegateError: something was refused, by us (then nothing was changed) or the cluster.
        KafkaUnavailable: no broker answers.
    """
    admin = admin_client(settings)
    planned = plan(topology, admin, settings.topic_prefix, consent)
    execute(planned, admin)
    return planned


def execute(planned: Plan, admin: AdminClient) -> None:
    """Carry out a plan; raises like `apply`."""
    if planned.refusals:
        raise TidegateError("\n".join(map(str, planned.refusals)))
    for step in (_create, _change, _add_partitions, _delete):
        step(planned, admin)
    _settle(planned, admin)


def _create(planned: Plan, admin: AdminClient) -> None:
    topics = [
        NewTopic(step.topic, step.partitions, step.replication, config=dict(step.config))
        for step in planned.of(CreateTopic)
    ]
    # A concurrent `apply` may have created the topics from the same file.
    _all(topics, admin.create_topics, "create", "Create", KafkaError.TOPIC_ALREADY_EXISTS)


def _change(planned: Plan, admin: AdminClient) -> None:
    entries: dict[str, list[ConfigEntry]] = {}
    for step in planned.of(ChangeConfig):
        entries.setdefault(step.topic, []).append(
            ConfigEntry(step.setting, step.after, incremental_operation=AlterConfigOpType.SET)
        )
    resources = [
        ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changed)
        for topic, changed in entries.items()
    ]
    _all(resources, admin.incremental_alter_configs, "change the settings of", "AlterConfigs")


def _add_partitions(planned: Plan, admin: AdminClient) -> None:
    grown = [NewPartitions(step.topic, step.after) for step in planned.of(AddPartitions)]
    _all(grown, admin.create_partitions, "add partitions to", "Alter")


def _delete(planned: Plan, admin: AdminClient) -> None:
    doomed = [step.topic for step in planned.of(DeleteTopic)]
    _all(doomed, admin.delete_topics, "delete", "Delete", KafkaError.UNKNOWN_TOPIC_OR_PART)


def _all(
    things: list[Any],
    call: Callable[..., dict[Any, Future[Any]]],
    doing: str,
    operation: str,
    harmless: int | None = None,
) -> None:
    """Send one request for all things; once all ended, raise the first failure.

    `operation` is the right on each of them that it needs.
    """
    if not things:
        return
    failed: list[TidegateError] = []
    for thing, future in call(things, request_timeout=TIMEOUT_SECONDS).items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != harmless:
                name = getattr(thing, "name", thing)
                failed.append(told(error, f"{doing} {name}", f"{operation} on topic {name}"))
    if failed:
        raise failed[0]


def _settle(planned: Plan, admin: AdminClient) -> None:
    """Wait until the cluster shows every step: a request may end before all brokers know of it.

    A stage that starts now must find its topics, and a second plan must find nothing to do.
    """
    deadline = time.monotonic() + _SETTLE_SECONDS
    left = planned.steps
    while left:
        cluster = read_cluster(admin, {step.topic for step in left})
        left = tuple(step for step in left if not _shown(step, cluster))
        if left and time.monotonic() > deadline:
            raise TidegateError(
                f"the cluster does not show within {_SETTLE_SECONDS} s: "
                f"{'; '.join(map(str, left))}; see its brokers' logs, then apply again"
            )
        if left:
            time.sleep(_POLL_SECONDS)


def _shown(step: Step, cluster: Cluster) -> bool:
    topic = cluster.topics.get(step.topic)
    match step:
        case DeleteTopic():
            return topic is None
        case CreateTopic(partitions=count) | AddPartitions(after=count):
            return topic is not None and topic.led == count
        case ChangeConfig(setting=setting, after=wanted):
            return topic is not None and same_setting(topic.config.get(setting), wanted)
