"""Which offsets of `events` a replay reads: fixed once it is asked for, then read to their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from streams.errors import KafkaUnavailable
from streams.event_reader.selection import Selection
from streams.event_reader.span import Question, Span, ask_spans, partitions_of, spans, within
from streams.serde.replay_records import ReplayAsked, ReplaySpan


def bounded(asked: ReplayAsked, asked_at: int) -> ReplayAsked:
    """What was asked, without events that came later: a replay may wait before it begins.

    `asked_at`, in milliseconds, is a broker's time, as are the times by which events are selected.
    """
    until = asked_at if asked.until is None else min(asked.until, asked_at)
    return replace(asked, until=until)


def selection(asked: ReplayAsked) -> Selection:
    """Which events are meant."""
    return Selection(
        asked.tenant_id, asked.source, asked.types, asked.subject, asked.since, asked.until
    )


def ask(admin: AdminClient, prefix: str, partitions: int, asked: ReplayAsked) -> Question:
    """Ask where events of a replay can lie, as of now, without waiting; see `chosen`."""
    chosen_by = selection(asked)
    return ask_spans(admin, prefix, partitions_of(chosen_by, partitions), chosen_by)


def chosen(asked: ReplayAsked, found: Mapping[int, Span]) -> dict[int, Span]:
    """The parts of spans that a replay names, all of them if it names no offsets."""
    named = {each.partition: (each.first, each.end) for each in asked.offsets}
    return within(found, named) if named else dict(found)


class Questions:
    """Where the events of replays lie now: one question at a time for each, and no waiting.

    `ask` asks the brokers.
    """

    def __init__(self, ask: Callable[[ReplayAsked], Question]) -> None:
        self._ask = ask
        self._open: dict[str, Question] = {}

    def __len__(self) -> int:
        """How many are not answered, or not looked at."""
        return len(self._open)

    def answer(self, replay_id: str, asked: ReplayAsked) -> dict[int, Span] | None:
        """The answer, given once; None as long as there is none: then call again.

        Raises:
            KafkaUnavailable: the topic is not there, or a partition has no leader.
        """
        question = self._open.get(replay_id) or self._ask(asked)
        if not question.answered:
            self._open[replay_id] = question
            return None
        self.drop(replay_id)
        return chosen(asked, question.spans())

    def drop(self, replay_id: str) -> None:
        """Give a question up: its answer would be old when it is looked at."""
        self._open.pop(replay_id, None)


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
