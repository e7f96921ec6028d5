"""Where a reader's consumer group goes on: its offsets on `events`, and how to set others.

Nothing here asks a group's coordinator by an admin client, for the reason that
`streams.kafka.groups` gives. A consumer that never joins asks instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    IsolationLevel,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from streams.errors import ConfigError, TidegateError
from streams.event_reader.span import EVENTS
from streams.kafka.groups import listed_groups
from streams.kafka.offsets import earliest, latest, offset_in, read_since, request_offsets

_TIMEOUT = 10.0
_OURS = (
    "dedup",
    "scheduler",
    "dispatcher",
    "pipeline",
    "delivery",
    "operator",
    "replays",
    "bulk",
    "analytics",
    "worker",
)


class GroupRefused(TidegateError):
    """A group whose offsets must not be set now."""


@dataclass(frozen=True, slots=True)
class Move:
    """One partition: the offset that a group has, None if it has none, and the one it gets.

    `asked` is the one that was meant, if the topic does not have that.
    """

    partition: int
    now: int | None
    to: int
    asked: int | None = None


@dataclass(frozen=True, slots=True)
class Ends:
    """The first offset that a partition still has, and the one before which all is committed.

    What an open transaction has written comes to readers later, so it lies behind the end.
    """

    first: int
    end: int


Target = Callable[[int, Ends], int | None]
"""The offset that a partition gets, None if it keeps its own."""


def require_own_group(group: str) -> None:
    """Check that a consumer group, named without the topic prefix, is a reader's own.

    Raises:
        ConfigError: it is one of Tidegate's stages.
    """
    if group.split("-", maxsplit=1)[0] in _OURS:
        raise ConfigError(f"the group {group!r} is one of Tidegate's own: choose another name")


def require_at_rest(admin: AdminClient, group: str, *, may_be_new: bool) -> None:
    """Check that nobody reads in a group: a live one would not hear of other offsets.

    Raises:
        GroupRefused: it has members, or there is no such group.
        KafkaException: Kafka does not tell.
    """
    found = listed_groups(admin, _TIMEOUT)
    state = next((each.state for each in found if each.group_id == group), None)
    if state not in (None, ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD):
        raise GroupRefused(
            f"group {group!r} is alive: end its processes, then seek (a process that was killed "
            "counts until its session is over: 45 s by default)"
        )
    if state in (None, ConsumerGroupState.DEAD) and not may_be_new:
        raise GroupRefused(
            f"there is no group {group!r}, or this user may not see it: see that it is spelled as "
            "its reader has it, or make it with --create"
        )


def moves(
    admin: AdminClient, prefix: str, reader: Consumer, partitions: Sequence[int], target: Target
) -> list[Move]:
    """What would change; a target beyond the topic's ends becomes the nearest one.

    `reader` is of the group, and never joins it.

    Raises:
        KafkaException: Kafka does not tell.
    """
    asked = [TopicPartition(prefix + EVENTS, number) for number in partitions]
    has = {place.partition: place.offset for place in _told(reader.committed(asked, _TIMEOUT))}
    ends = _ends(admin, prefix, partitions)
    found = []
    for number in partitions:
        to = target(number, ends[number])
        now = has.get(number, -1)
        if to is not None:
            there = min(max(to, ends[number].first), ends[number].end)
            asked_for = None if there == to else to
            found.append(Move(number, None if now < 0 else now, there, asked_for))
    return found


def move(reader: Consumer, prefix: str, wanted: Sequence[Move]) -> None:
    """Set the offsets of the reader's group.

    Raises:
        KafkaException: Kafka refuses, because somebody has joined the group for example.
    """
    places = [TopicPartition(prefix + EVENTS, each.partition, each.to) for each in wanted]
    if places:
        _told(reader.commit(offsets=places, asynchronous=False) or ())


def _told(places: Iterable[TopicPartition]) -> list[TopicPartition]:
    for place in places:
        if place.error is not None:
            raise GroupRefused(f"partition {place.partition}: {place.error.str()}")
    return list(places)


def first_since(
    admin: AdminClient, prefix: str, partitions: Sequence[int], milliseconds: int
) -> dict[int, int]:
    """The first offset of each partition whose record has this time or a later one.

    Raises:
        KafkaException: Kafka does not tell.
    """
    ends = {(EVENTS, n): each.end for n, each in _ends(admin, prefix, partitions).items()}
    found = read_since(admin, prefix, ends, milliseconds, _TIMEOUT)
    return {number: found[EVENTS, number] for number in partitions}


def _ends(admin: AdminClient, prefix: str, partitions: Sequence[int]) -> dict[int, Ends]:
    places = [(EVENTS, number) for number in partitions]
    committed = IsolationLevel.READ_COMMITTED
    first, last = (
        request_offsets(admin, prefix, places, spec, _TIMEOUT, committed)
        for spec in (earliest(), latest())
    )
    return {p[1]: Ends(offset_in(first[p]), offset_in(last[p])) for p in places}
