"""Which offsets of `events` a replay reads: fixed once it is asked for, then read to their end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka.admin import AdminClient

from streams.errors import KafkaUnavailable
from streams.event_reader.selection import Selection
from streams.event_reader.span import Span, partitions_of, spans, within
from streams.serde.replay_records import ReplayAsked, ReplaySpan


def selection(asked: ReplayAsked, until: int | None = None) -> Selection:
    """Which events are meant; none that came at `until` or later, in milliseconds, if given."""
    ends = [end for end in (asked.until, until) if end is not None]
    return Selection(
        asked.tenant_id,
        asked.source,
        asked.types,
        asked.subject,
        asked.since,
        min(ends, default=None),
    )


def chosen(asked: ReplayAsked, found: Mapping[int, Span]) -> dict[int, Span]:
    """The parts of spans that a replay names, all of them if it names no offsets."""
    named = {each.partition: (each.first, each.end) for each in asked.offsets}
    return within(found, named) if named else dict(found)


def asked_spans(
    admin: AdminClient, prefix: str, partitions: int, asked: ReplayAsked
) -> dict[int, Span]:
    """The offsets in which events of a replay can lie, as of now.

    Raises:
        KafkaUnavailable: the topic is not there, or a partition has no leader.
    """
    chosen_by = selection(asked)
    found = spans(admin, prefix, partitions_of(chosen_by, partitions), chosen_by)
    return chosen(asked, found)


def begun(asked: ReplayAsked, now: Mapping[int, Span]) -> tuple[ReplaySpan, ...]:
    """What a replay that is asked for now has to read, also what it names and is purged."""
    named = {each.partition: each.first for each in asked.offsets} if asked.since is None else {}
    firsts = {p: min(named.get(p, span.first), span.first) for p, span in now.items()}
    return tuple(ReplaySpan(p, firsts[p], firsts[p], span.end) for p, span in now.items())


def left(saved: Sequence[ReplaySpan], now: Mapping[int, Span]) -> dict[int, Span]:
    """What a replay still has to read.

    Raises:
        KafkaUnavailable: a partition ends before the end that was saved. A new leader may not know
            better yet; else others get these offsets, in a topic that was made again for example.
    """
    found = {}
    for each in saved:
        span = now[each.partition]
        if span.end < each.end:
            raise KafkaUnavailable(
                f"partition {each.partition} of events ends at offset {span.end}, and this replay "
                f"reads on to {each.end}: if that stays so, Kafka has lost events: stop this "
                "replay, and begin another"
            )
        first = min(max(each.next, span.oldest), each.end)
        found[each.partition] = Span(span.oldest, first, each.end)
    return found


def purged(saved: Sequence[ReplaySpan], now: Mapping[int, Span]) -> Iterator[str]:
    """Yield what was purged between what a replay has read and what it can still read."""
    for each in saved:
        gone = now[each.partition].first - each.next
        if gone > 0:
            yield (
                f"{gone} offsets of partition {each.partition} were purged before they were "
                f"read, from {each.next} on: the retention of `events` has passed"
            )
