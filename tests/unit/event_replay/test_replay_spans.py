"""What a replay reads, what it still has to read, and how fast it asks for jobs."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from streams.errors import KafkaUnavailable
from streams.event_reader.span import Span, within
from streams.event_replay.pace import Pace
from streams.event_replay.spans import Questions, ask, left, purged
from streams.serde.replay_records import ReplayAsked, ReplayRange, ReplaySpan

ASKED = ReplayAsked("why", None, None, (), None, None, None, (), "x", "batch", 10.0, b"d")


def test_ranges_cut_the_spans_and_leave_the_other_partitions_out() -> None:
    found = {0: Span(10, 10, 50), 1: Span(0, 5, 20), 2: Span(0, 0, 9)}
    assert within(found, {0: (0, 30), 1: (8, None), 2: (40, 60)}) == {
        0: Span(10, 10, 30),
        1: Span(0, 8, 20),
        2: Span(0, 9, 9),
    }


def test_what_was_purged_meanwhile_is_left_out_and_told() -> None:
    saved = (ReplaySpan(0, 10, 20, 50), ReplaySpan(1, 0, 5, 8))
    now = left(saved, {0: Span(25, 25, 90), 1: Span(30, 30, 90)})
    assert now == {0: Span(25, 25, 50), 1: Span(30, 8, 8)}
    assert [note.split(" were")[0] for note in purged(saved, now)] == [
        "5 offsets of partition 0",
        "3 offsets of partition 1",
    ]


@pytest.mark.parametrize("end", [10, 950])
def test_a_partition_that_has_lost_its_end_is_not_read_on(end: int) -> None:
    """Others have the offsets since: the topic was made again, or a broker lost what it had."""
    saved = (ReplaySpan(0, 0, 5, 9), ReplaySpan(1, 0, 900, 1_000))
    told = rf"partition 1 of events ends at offset {end}, .* reads on to 1000: .* begin another"
    with pytest.raises(KafkaUnavailable, match=told):
        left(saved, {0: Span(0, 0, 9), 1: Span(0, 0, end)})
    assert left(saved[:1], {0: Span(0, 0, 9)}) == {0: Span(0, 5, 9)}


def test_a_pace_allows_its_rate_and_at_most_a_second_of_it_at_once() -> None:
    pace = Pace(10.0, 100.0)
    assert pace.allowed(100.0) == 0
    assert pace.allowed(100.5) == 5
    pace.spend(5)
    assert pace.allowed(100.5) == 0
    assert pace.allowed(500.0) == 10


def test_a_slow_pace_allows_one_job_after_another() -> None:
    pace = Pace(0.5, 0.0)
    assert [pace.allowed(at) for at in (1.0, 2.0, 9.0)] == [0, 1, 1]


class Awaited(Future[Any]):
    """An answer for which nobody may wait."""

    def result(self, timeout: float | None = None) -> Any:
        assert self.done(), "it would wait"
        return super().result(timeout)


class PlayedAdmin:
    """An admin client whose answers come when they are told to."""

    def __init__(self) -> None:
        self.answers: list[Future[Any]] = []

    def list_offsets(self, asked: dict[TopicPartition, Any], **_: Any) -> dict[Any, Future[Any]]:
        found: dict[Any, Future[Any]] = {place: Awaited() for place in asked}
        self.answers += found.values()
        return found


def asked_of(admin: PlayedAdmin) -> Questions:
    return Questions(lambda asked: ask(cast(AdminClient, admin), "", 2, asked))


def test_nobody_waits_for_the_answer_of_where_events_lie() -> None:
    admin = PlayedAdmin()
    questions = asked_of(admin)
    for at in range(6):  # the ends, the oldest and the first offsets of two partitions
        assert questions.answer("r1", ASKED) is None
        admin.answers[at].set_result(SimpleNamespace(offset=(9, 9, 2, 2, 4, 4)[at]))
    assert questions.answer("r1", ASKED) == dict.fromkeys((0, 1), Span(2, 4, 9))
    assert (len(admin.answers), len(questions)) == (6, 0)


def test_an_answer_is_cut_to_the_offsets_that_a_replay_names() -> None:
    admin = PlayedAdmin()
    questions, named = asked_of(admin), replace(ASKED, offsets=(ReplayRange(1, 3, 7),))
    questions.answer("r1", named)
    for at, answer in enumerate(admin.answers):
        answer.set_result(SimpleNamespace(offset=(9, 9, 2, 2, 2, 2)[at]))
    assert questions.answer("r1", named) == {1: Span(2, 3, 7)}


def test_a_partition_without_a_leader_is_told_and_asked_anew() -> None:
    admin = PlayedAdmin()
    questions = asked_of(admin)
    questions.answer("r1", ASKED)
    leaderless = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    for answer in admin.answers:
        answer.set_exception(leaderless)
    with pytest.raises(KafkaUnavailable, match=r"events: .* each of its partitions has a leader"):
        questions.answer("r1", ASKED)
    assert questions.answer("r1", ASKED) is None
    assert len(admin.answers) == 12
