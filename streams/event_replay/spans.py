"""Which offsets of `events` a replay reads: fixed when it begins, then read once to their end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from streams.event_reader.selection import Selection
from streams.event_reader.span import Span, spans
from streams.serde.ids import partition_for
from streams.serde.replay_records import ReplayAsked, ReplayRange, ReplaySpan


def selection(asked: ReplayAsked) -> Selection:
    """Which events are meant."""
    return Selection(
        asked.tenant_id, asked.source, asked.types, asked.subject, asked.since, asked.until
    )


def asked_spans(
    admin: AdminClient, prefix: str, partitions: int, asked: ReplayAsked
) -> dict[int, Span]:
    """The offsets in which events of a replay can lie, as of now.

    Raises:
        KafkaUnavailable: the topic is not there, or a partition has no leader.
    """
    wanted: Sequence[int] = range(partitions)
    if asked.tenant_id is not None:
        wanted = [partition_for(asked.tenant_id, partitions)]
    found = spans(admin, prefix, wanted, selection(asked))
    return within(found, asked.offsets) if asked.offsets else found


def within(found: Mapping[int, Span], ranges: Iterable[ReplayRange]) -> dict[int, Span]:
    """The parts of spans that lie in ranges; a partition has one range at most."""
    return {
        each.partition: _cut(found[each.partition], each)
        for each in ranges
        if each.partition in found
    }


def _cut(span: Span, wanted: ReplayRange) -> Span:
    end = span.end if wanted.end is None else min(span.end, wanted.end)
    return replace(span, first=min(max(span.first, wanted.first), end), end=end)


def left(saved: Sequence[ReplaySpan], oldest: Mapping[int, Span]) -> dict[int, Span]:
    """What a replay still has to read."""
    return {
        each.partition: Span(
            oldest[each.partition].oldest,
            min(max(each.next, oldest[each.partition].oldest), each.end),
            each.end,
        )
        for each in saved
    }


def purged(saved: Sequence[ReplaySpan], now: Mapping[int, Span]) -> Iterator[str]:
    """Yield what was purged between what a replay has read and what it can still read."""
    for each in saved:
        gone = now[each.partition].first - each.next
        if gone > 0:
            yield (
                f"{gone} offsets of partition {each.partition} were purged before they were "
                f"read, from {each.next} on: the retention of `events` has passed"
            )
