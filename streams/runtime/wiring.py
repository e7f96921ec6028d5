"""The parts of a stage's process, made and connected in the order that a start needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient

from streams.kafka.clients import consumer_config, producer_config
from streams.kafka.failures import Outage
from streams.kafka.unowned_partitions import UnownedPartitions
from streams.runtime.assignment import Assignment
from streams.runtime.clock import Clock
from streams.runtime.end_offsets import EndOffsets
from streams.runtime.lag import Lag
from streams.runtime.link import LINK, LinkService
from streams.runtime.processor import Record
from streams.runtime.source import Source
from streams.runtime.stage import AnyStage
from streams.runtime.stalled_inputs import BlockedInputs
from streams.runtime.state_directory import StateDirectory
from streams.runtime.step import by_task
from streams.runtime.topics import Changelog, StageTopics, Topics
from streams.runtime.transaction import KafkaTransactions
from streams.settings import Settings


@dataclass(frozen=True, slots=True)
class Wired:
    """What the loop of a stage works with."""

    source: Source
    ends: EndOffsets
    lag: Lag
    transactions: KafkaTransactions
    assignment: Assignment
    unowned: UnownedPartitions


def wire(
    stage: AnyStage,
    settings: Settings,
    topics: Topics,
    admin: AdminClient,
    clock: Clock,
    changelogs: dict[str, Changelog],
    outage: Outage,
    polled: Callable[[], object],
    stopping: Callable[[], bool],
    service: LinkService | None = None,
) -> Wired:
    """Make the parts and join the group.

    `polled` is called whenever records are asked for, and `stopping` tells whether to give up
    waiting for Kafka.

    Raises:
        ConfigError: the state directory is in use.
    """
    prefix = settings.topic_prefix
    link = None if service is None else service.link

    def position(topic: str, partition: int) -> int:
        return assignment.position(topic, partition)

    def caught_up_to(topic: str, partition: int, moment: float) -> bool:
        if topic == LINK:
            return link is not None and link.caught_up_to(moment)
        return ends.caught_up_to(topic, partition, moment)

    def may_wait(records: Sequence[Record]) -> bool:
        return all(task.may_wait(own) for task, own in by_task(assignment.tasks, records))

    # Claim it before joining the group: joining displaces any other process of the same name.
    width = topics.width(stage.inputs[0])
    directory = StateDirectory(settings, stage.name, width, len(stage.stores))
    source = Source(stage.name, stage.inputs, settings, outage, polled, may_wait, link, clock.now)
    ends = EndOffsets(admin, prefix, position, outage, (stage.inputs[0], 0))
    lag = Lag(stage.name, ends, BlockedInputs(stage.name, admin, prefix, position))
    transactions = KafkaTransactions(
        stage.name,
        f"{prefix}{stage.name}-{settings.instance}",
        prefix,
        producer_config(settings),
        settings.session_timeout_ms,
        source,
        StageTopics(topics, stage),
        outage,
        stopping,
        link,
    )
    assignment = Assignment(
        stage,
        source,
        admin,
        prefix,
        directory,
        changelogs,
        consumer_config(settings, stage.name),
        clock,
        caught_up_to,
        settings.set_aside,
        service,
    )
    unowned = UnownedPartitions(
        lambda: admin,
        prefix + stage.name,
        prefix + stage.inputs[0],
        width,
        settings.session_seconds,
    )
    return Wired(source, ends, lag, transactions, assignment, unowned)
