"""The two layouts of the stages, fused and apart, and which of them has the positions.

Each layout's consumer groups keep its positions. Only one layout's groups may have any, because
neither layout knows what the other has processed. So a stage does not start while the other layout
runs or has positions, and `carry_over` moves the positions once nothing runs. Stores need no move:
both layouts use the same changelog topics.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from streams.errors import ConfigError, KafkaUnavailable
from streams.kafka.clients import consumer_config
from streams.kafka.failures import denied, needing
from streams.kafka.groups import committed_positions, listed_groups, raise_first
from streams.settings import Settings
from streams.topology.model import FUSED, LayoutName, Topology

_TIMEOUT = 10.0
_PATIENCE_SECONDS = 30.0
"""How long a broker may take to find its coordinators: a new broker has none."""
_PAUSE_SECONDS = 0.2
_ENDED = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group by its logical name, and the places for which it may have positions."""

    name: str
    places: tuple[tuple[str, int], ...]


def groups_apart(topology: Topology) -> tuple[Group, ...]:
    """The groups of the stages that can be fused, in the order of the flow."""
    return tuple(
        Group(name, _places(topology, topology.stages[name].reads)) for name in topology.fused
    )


def group_fused(topology: Topology) -> Group:
    """The group of the fused stage."""
    places = [place for group in groups_apart(topology) for place in group.places]
    return Group(FUSED, tuple(places))


def refuse_other(stage: str, topology: Topology, settings: Settings, admin: AdminClient) -> None:
    """Check that the other layout neither runs nor has positions.

    This is checked before the stage joins its group, so that it takes no partitions in vain, and
    each time it is given partitions. If two layouts start at the same time, at least one of them
    sees the other. A process that was frozen or cut off during a change of layout notices the
    change.

    Raises:
        ConfigError: the other layout runs or has positions; the message names the remedy.
        KafkaException: not answered in time.
    """
    others, ours = _others(stage, topology)
    for other in others:
        _refuse(stage, other, ours, settings, admin)


def refuse_left(stage: str, topology: Topology, settings: Settings) -> None:
    """Check that a stage no longer fused did not leave its positions with the fused group.

    Raises:
        ConfigError: it left them there; the message names the remedy.
        KafkaException: not answered in time.
    """
    left = Group(FUSED, _fused_before(stage, topology))
    if left.places and _positions(left, settings):
        raise ConfigError(
            f"stage {stage}: {FUSED} has positions of its inputs, from when the topology fused it: "
            "name it under `fused` again, run `tidegate topology layout apart`, then take it out "
            "and start this again"
        )


def carry_over(
    layout: LayoutName, topology: Topology, settings: Settings, admin: AdminClient
) -> dict[str, int]:
    """Give one layout ("fused" or "apart") the other's positions; returns how many, by group.

    This waits for processes that have just ended: while their group knows them, the other layout
    cannot start. A group is deleted once its positions are copied, so an interrupted call can
    simply be repeated. Without positions to move it changes nothing. Where both layouts have a
    position, the higher one stays: what lies before it was processed.

    Raises:
        ConfigError: something of either layout still runs, or has positions that this topology does
            not know.
        KafkaUnavailable: not answered in time; some positions may have been moved.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return _carry_over(layout, topology, settings, admin)
        except KafkaException as error:
            if denied(error) or time.monotonic() > until:
                raise KafkaUnavailable(
                    f"the positions are not all moved, {settings.bootstrap} did not answer as it "
                    f"should ({error.args[0].str()}): see to that, then run this again"
                ) from error
        time.sleep(_PAUSE_SECONDS)


def _carry_over(
    layout: LayoutName, topology: Topology, settings: Settings, admin: AdminClient
) -> dict[str, int]:
    apart, fused = groups_apart(topology), (group_fused(topology),)
    sources, targets = (apart, fused) if layout == "fused" else (fused, apart)
    _await_end(sources, settings, admin)
    if not any(_positions(group, settings) for group in sources):
        return {}
    _await_end(targets, settings, admin)
    for group in (*sources, *targets):
        _refuse_loss(group, topology, settings, admin)
    found = {place: at for group in sources for place, at in _positions(group, settings).items()}
    moved = {group.name: _commit(group, found, settings) for group in targets}
    _delete(sources, targets, settings, admin)
    return {name: count for name, count in moved.items() if count}


def _others(stage: str, topology: Topology) -> tuple[tuple[Group, ...], str]:
    """The groups of the layout to which a stage does not belong, and the name of its own."""
    if stage == FUSED:
        return groups_apart(topology), "fused"
    if stage not in topology.fused:
        return (), "apart"
    # The fused stage has positions of all inputs or none; the others this stage may not see.
    return (Group(FUSED, _places(topology, topology.stages[stage].reads)),), "apart"


def _fused_before(stage: str, topology: Topology) -> tuple[tuple[str, int], ...]:
    """Inputs of a separate stage; the fused group has their positions only if it once was fused."""
    if stage not in topology.stages or stage in topology.fused:
        return ()
    known = {topic for topic, _ in group_fused(topology).places}
    return _places(topology, [t for t in topology.stages[stage].reads if t not in known])


def _refuse(stage: str, other: Group, ours: str, settings: Settings, admin: AdminClient) -> None:
    way_out = f"`tidegate topology layout {ours}`"
    if _runs(other, settings, admin):
        raise ConfigError(
            f"stage {stage}: {other.name} runs, or ended less than {settings.session_seconds:g} s "
            f"ago; it does the same work in the other layout: stop all stages of it, run "
            f"{way_out}, then start this again"
        )
    if _positions(other, settings):
        raise ConfigError(
            f"stage {stage}: {other.name}, of the other layout, has the positions: run {way_out}, "
            "then start this again"
        )


def _await_end(groups: Sequence[Group], settings: Settings, admin: AdminClient) -> None:
    """Wait until the groups are empty: an ended process is a member until its session is over."""
    until = time.monotonic() + 1.5 * settings.session_seconds
    while running := [group.name for group in groups if _runs(group, settings, admin)]:
        if time.monotonic() > until:
            names = ", ".join(running)
            raise ConfigError(f"there are processes of {names}: stop them, then try again")
        time.sleep(_PAUSE_SECONDS)


def _refuse_loss(group: Group, topology: Topology, settings: Settings, admin: AdminClient) -> None:
    """Check that the group has no position which this topology cannot move or use."""
    prefix = settings.topic_prefix
    asked = [ConsumerGroupTopicPartitions(prefix + group.name)]
    answer = admin.list_consumer_group_offsets(asked, request_timeout=_TIMEOUT)
    read = {topic for stage in topology.stages.values() for topic in stage.reads}
    for place in answer[prefix + group.name].result().topic_partitions:
        topic, partition = place.topic.removeprefix(prefix), place.partition
        if topic in read and place.offset >= 0 and (topic, partition) not in group.places:
            raise ConfigError(
                f"{group.name} has a position of {topic}-{partition}, which this topology does not "
                "give it: name the topology that its stages ran with (`--topology`)"
            )


def _places(topology: Topology, topics: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple((t, p) for t in topics for p in range(topology.topics[t].partitions))


def _runs(group: Group, settings: Settings, admin: AdminClient) -> bool:
    """Whether the group has members.

    The brokers leave out what we may not see; `_positions` is refused then.
    """
    name, found = settings.topic_prefix + group.name, listed_groups(admin, _TIMEOUT)
    return any(each.group_id == name and each.state not in _ENDED for each in found)


def _positions(group: Group, settings: Settings) -> dict[tuple[str, int], int]:
    """The group's offsets, if it has any; waits for pending transactions (KIP-447).

    A group without inputs is asked for none: this user may have no right to see it.
    """
    if not group.places:
        return {}
    prefix = settings.topic_prefix
    with _reader(group, settings) as reader:
        return committed_positions(reader, prefix + group.name, prefix, group.places, _TIMEOUT)


def _commit(group: Group, found: dict[tuple[str, int], int], settings: Settings) -> int:
    has = _positions(group, settings)
    offsets = [
        TopicPartition(settings.topic_prefix + topic, p, found[topic, p])
        for topic, p in group.places
        if found.get((topic, p), -1) > has.get((topic, p), -1)
    ]
    if offsets:
        name = settings.topic_prefix + group.name
        with _reader(group, settings) as reader, needing(f"Read on group {name}"):
            committed = reader.commit(offsets=offsets, asynchronous=False) or ()
        raise_first(committed)
    return len(offsets)


def _delete(
    sources: Sequence[Group], targets: Sequence[Group], settings: Settings, admin: AdminClient
) -> None:
    """Delete the groups whose positions were moved, unless some of these are gone again."""
    left = {group.name: _positions(group, settings) for group in sources}
    moved = {place: at for group in targets for place, at in _positions(group, settings).items()}
    if any(at > moved.get(place, -1) for own in left.values() for place, at in own.items()):
        raise ConfigError(
            "something else changes the positions, such as a move to the other layout: wait until "
            "it has ended, then run this again; nothing is lost"
        )
    names = [settings.topic_prefix + name for name, own in left.items() if own]
    if names:
        answers = admin.delete_consumer_groups(names, request_timeout=_TIMEOUT)
        for name, answer in answers.items():
            with needing(f"Delete on group {name}"):
                answer.result()


def _reader(group: Group, settings: Settings) -> Consumer:
    """A client that reads and writes a group's offsets without joining it."""
    return Consumer(consumer_config(settings, group.name))
