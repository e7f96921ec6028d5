"""What a replay reads, what it still has to read, and how fast it asks for jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams.errors import KafkaUnavailable
from streams.event_reader.span import Span, within
from streams.event_replay.pace import Pace
from streams.event_replay.spans import left, purged, selection
from streams.serde.replay_records import ReplayAsked, ReplaySpan

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


@pytest.mark.parametrize(
    ("until", "bound"), [(None, 1_000), (900, 900), (1_100, 1_000)], ids=["none", "past", "future"]
)
def test_events_that_came_after_it_was_asked_for_are_not_selected(
    until: int | None, bound: int
) -> None:
    """It may have waited: behind other replays, in a pause, or for an operator that was away."""
    assert selection(replace(ASKED, until=until), 1_000).until == bound
