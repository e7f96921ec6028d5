"""Looks at consumer groups, their positions, and the ends of what they read, twice."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
)
from confluent_kafka.admin import AdminClient

from streams.doctor.cluster_view import OFFSETS, operations
from streams.doctor.looking import ANSWER_SECONDS
from streams.errors import TidegateError
from streams.kafka.failures import DENIED
from streams.kafka.groups import listed_groups
from streams.kafka.offsets import (
    Place,
    earliest,
    latest,
    offset_in,
    offset_since,
    request_offsets,
    since,
)
from streams.process.wall_clock import wall_ms

APART_SECONDS = 2.0
"""Between the two looks: a living stage commits several times within it."""
OLD_SECONDS = 60


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group by its logical name; `members` are the instances of its processes.

    `positions` are its committed offsets, at the first look and at the second.
    """

    name: str
    members: tuple[str, ...] = ()
    before: Mapping[Place, int] = field(default_factory=dict)
    positions: Mapping[Place, int] = field(default_factory=dict)
    operations: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Ends:
    """Offsets of the first record that is left, after the last one, and after the last one that
    readers of committed data get."""

    first: Mapping[Place, int]
    last: Mapping[Place, int]
    stable: Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class GroupsSeen:
    """All groups by logical name, and those that may not be seen; `old` are places where a record
    older than `OLD_SECONDS` waits for the end of a transaction."""

    groups: Mapping[str, GroupSeen]
    hidden: frozenset[str]
    before: Ends
    after: Ends
    old: frozenset[Place]


def read_groups(
    admin: AdminClient,
    prefix: str,
    names: Iterable[str],
    places: Iterable[Place],
    topics: Collection[str],
) -> GroupsSeen:
    """Look at these groups, and at these inputs, twice within some seconds.

    `topics` are all that the user may see, Kafka's own too.
    """
    require_groups(admin, topics)
    places = tuple(places)
    described, hidden = _described(admin, prefix, names)
    before, positions = _ends(admin, prefix, places), _positions(admin, prefix, described)
    threading.Event().wait(APART_SECONDS)
    after, later = _ends(admin, prefix, places), _positions(admin, prefix, described)
    groups = {
        name: GroupSeen(
            name,
            _members(found),
            positions[name],
            later[name],
            operations(found.authorized_operations),
        )
        for name, found in described.items()
    }
    return GroupsSeen(groups, hidden, before, after, _old(admin, prefix, after))


def require_groups(admin: AdminClient, topics: Collection[str]) -> None:
    """Check that there are groups to ask for.

    On a cluster that never had one, the first question for a group's coordinator makes Kafka create
    the topic of positions; asking for the list of groups does not.

    Raises:
        TidegateError: there is no group, or none that the user may see.
    """
    if OFFSETS in topics:
        return
    if not listed_groups(admin, ANSWER_SECONDS):
        raise TidegateError("there is none yet, or none that this user may see: no stage has run")


def _described(
    admin: AdminClient, prefix: str, names: Iterable[str]
) -> tuple[dict[str, Any], frozenset[str]]:
    asked = {prefix + name: name for name in names}
    answers = admin.describe_consumer_groups(
        list(asked), include_authorized_operations=True, request_timeout=ANSWER_SECONDS
    )
    found, hidden = {}, set()
    for full, answer in answers.items():
        try:
            found[asked[full]] = answer.result()
        except KafkaException as error:
            if error.args[0].code() in DENIED:
                hidden.add(asked[full])
            elif error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise
    return found, frozenset(hidden)


def _members(described: Any) -> tuple[str, ...]:
    if described.state in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD):
        return ()
    return tuple(sorted(m.group_instance_id or m.client_id for m in described.members))


def _positions(
    admin: AdminClient, prefix: str, groups: Iterable[str]
) -> dict[str, dict[Place, int]]:
    answers: dict[str, Future[Any]] = {}
    for name in groups:  # librdkafka asks for one group at a time
        asked = [ConsumerGroupTopicPartitions(prefix + name)]
        found = admin.list_consumer_group_offsets(asked, request_timeout=ANSWER_SECONDS)
        answers[name] = found[prefix + name]
    return {
        name: {
            (place.topic.removeprefix(prefix), place.partition): place.offset
            for place in answer.result().topic_partitions
            if place.offset >= 0
        }
        for name, answer in answers.items()
    }


def _ends(admin: AdminClient, prefix: str, places: Iterable[Place]) -> Ends:
    """Stable ones first: records that come meanwhile are no open transaction for two looks."""
    asked = (
        (latest(), IsolationLevel.READ_COMMITTED),
        (latest(), IsolationLevel.READ_UNCOMMITTED),
        (earliest(), IsolationLevel.READ_UNCOMMITTED),
    )
    answers = [
        request_offsets(admin, prefix, places, spec, ANSWER_SECONDS, level) for spec, level in asked
    ]
    stable, last, first = ({p: offset_in(a) for p, a in each.items()} for each in answers)
    return Ends(first, last, stable)


def _old(admin: AdminClient, prefix: str, ends: Ends) -> frozenset[Place]:
    """Places whose first record of an open transaction is old, by the record's own time."""
    held = [place for place, end in ends.last.items() if ends.stable[place] < end]
    asked = since(wall_ms() - OLD_SECONDS * 1000)
    answers = request_offsets(admin, prefix, held, asked, ANSWER_SECONDS)
    return frozenset(
        place
        for place, answer in answers.items()
        if offset_since(answer, ends.last[place]) > ends.stable[place]
    )
