"""Where the records of a selection lie on the topic, as of now."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import AdminClient

from streams.errors import KafkaUnavailable
from streams.event_reader.selection import Selection
from streams.kafka.offsets import (
    earliest,
    latest,
    offset_in,
    offset_since,
    request_offsets,
    since,
)
from streams.serde.ids import partition_for

EVENTS = "events"
_TIMEOUT, _BETWEEN_TRIES_SECONDS = 10.0, 0.2


Ranges = Mapping[int, tuple[int, int | None]]
"""Offsets of partitions: the first one, and the one before which a range ends, None if open."""


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition to read: from `first` on and before `end`.

    `oldest` is the first offset that the broker still has.
    """

    oldest: int
    first: int
    end: int


def partitions_of(selection: Selection, partitions: int) -> range:
    """The partitions, of so many, in which selected events can be."""
    if selection.tenant_id is None:
        return range(partitions)
    home = partition_for(selection.tenant_id, partitions)
    return range(home, home + 1)


def spans(
    admin: AdminClient, prefix: str, partitions: Sequence[int], selection: Selection
) -> dict[int, Span]:
    """The span of each partition; it ends where everything before is committed or aborted.

    It asks again for a while: leaders move, and those of a new topic are not known at once.

    Raises:
        KafkaUnavailable: the topic is not there, or a partition has no leader.
    """
    latest_try = time.monotonic() + _TIMEOUT
    while True:
        try:
            return _spans(admin, prefix, partitions, selection)
        except KafkaException as error:
            if time.monotonic() > latest_try:
                raise KafkaUnavailable(
                    f"{prefix}{EVENTS}: {error.args[0].str()}: see whether the topic exists and "
                    "each of its partitions has a leader"
                ) from error
            time.sleep(_BETWEEN_TRIES_SECONDS)


def _spans(
    admin: AdminClient, prefix: str, partitions: Sequence[int], selection: Selection
) -> dict[int, Span]:
    places = [(EVENTS, number) for number in partitions]
    ends, oldest, firsts = (
        request_offsets(admin, prefix, places, spec, _TIMEOUT, IsolationLevel.READ_COMMITTED)
        for spec in (latest(), earliest(), since(selection.since or 0))
    )
    found = {}
    for place in places:
        end, begin = offset_in(ends[place]), offset_in(oldest[place])
        found[place[1]] = Span(begin, max(begin, offset_since(firsts[place], end)), end)
    return found


def within(found: Mapping[int, Span], ranges: Ranges) -> dict[int, Span]:
    """The parts of spans that lie in ranges."""
    return {
        partition: _cut(found[partition], *ends)
        for partition, ends in ranges.items()
        if partition in found
    }


def purged_of(found: Mapping[int, Span], ranges: Ranges) -> Iterator[str]:
    """Yield what ranges name and the topic no longer has."""
    for partition, (first, end) in ranges.items():
        oldest = found[partition].oldest
        gone = (oldest if end is None else min(oldest, end)) - first
        if gone > 0:
            yield (
                f"{gone} of these offsets of partition {partition}, from {first} on, are purged: "
                "the retention of `events` has passed"
            )


def _cut(span: Span, first: int, end: int | None) -> Span:
    end = span.end if end is None else min(span.end, end)
    return replace(span, first=min(max(span.first, first), end), end=end)
