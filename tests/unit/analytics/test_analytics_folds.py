"""What records add to the tables: each once, where it belongs, whatever comes again."""

from __future__ import annotations

import operator
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from faust.types.tuples import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from support.odd_records import KEYS, broken, framed
from support.operator_cluster import event_job, make_entry, make_event, make_job

from streams.analytics import folds
from streams.analytics.counting import fold
from streams.analytics.figures import Figures
from streams.analytics.partition import CountedPartition
from streams.analytics.windows import STEPS, RowKey, row_key
from streams.errors import ConfigError, DecodeError
from streams.serde.codec import DUPLICATE, ENVELOPE, JOB, LEDGER_ENTRY
from streams.serde.job_states import JobStatus
from streams.serde.records import Duplicate, Job
from streams.state.memory import MemoryTables

WEEK = 7 * 86_400_000
AT = 2_900 * WEEK + 86_400_000
MINUTE, HOUR = STEPS["minute"], STEPS["hour"]


class Folded:
    """One partition in memory."""

    def __init__(self) -> None:
        self.tables = MemoryTables()
        self.counted = CountedPartition(self.tables, WEEK)

    def fold(self, topic: str, key: bytes, value: bytes | None, at: int = AT) -> None:
        told = folds.FOLDS[topic](self.counted, key, value, at)
        self.counted.advance(self.counted.position, told)

    def job(self, job: Job) -> None:
        self.fold("jobs", job.job_id.encode(), JOB.encode(job))

    def row(self, at: int, *dimensions: str, step: str = "minute") -> Figures | None:
        self.counted.write()
        width = STEPS[step]  # type: ignore[index]
        key = row_key(width, RowKey("acme", width.start(at), dimensions))
        stored = self.tables.get(at // WEEK + 1, key)
        return Figures.decode(stored) if stored else None

    def outcomes(self, at: int, *dimensions: str) -> dict[str, int]:
        row = self.row(at, *dimensions)
        return {} if row is None else row.outcomes


@pytest.fixture
def folded() -> Folded:
    return Folded()


def event(folded: Folded, key: str, at: int, **fields: Any) -> None:
    folded.fold("events", b"acme", ENVELOPE.encode(make_event(key, **fields)), at)


def test_events_are_counted_in_their_minute_and_hour(folded: Folded) -> None:
    event(folded, "e1", AT, subject="a")
    event(folded, "e2", AT + 59_999, subject="a")
    event(folded, "e3", AT + 60_000, subject="b")
    first, hour = (
        folded.row(AT, "shop", "order.paid"),
        folded.row(AT, "shop", "order.paid", step="hour"),
    )
    assert first
    assert (first.events, first.subjects.estimate) == (2, 1)
    assert hour
    assert (hour.events, hour.subjects.estimate) == (3, 2)


def test_a_late_event_is_counted_where_it_belongs(folded: Folded) -> None:
    event(folded, "e1", AT)
    event(folded, "late", AT - 6 * 86_400_000)
    late = folded.row(AT - 6 * 86_400_000, "shop", "order.paid")
    assert late
    assert late.events == 1


def test_windows_are_dropped_after_the_segment_behind_them(folded: Folded) -> None:
    event(folded, "e1", AT)
    event(folded, "e2", AT + WEEK)
    assert folded.row(AT, "shop", "order.paid")
    event(folded, "e3", AT + 2 * WEEK)
    assert folded.row(AT, "shop", "order.paid") is None
    event(folded, "too late", AT)
    assert folded.row(AT, "shop", "order.paid") is None


def test_a_wrong_clock_at_the_writer_of_jobs_drops_no_window(folded: Folded) -> None:
    """`jobs` bears the times of its writer's wall clock; figures follow those in the records."""
    job = event_job(make_event("e1"), event_time=AT, status="succeeded", updated_at=AT + 5)
    folded.fold("jobs", job.job_id.encode(), JOB.encode(job), AT + 500 * WEEK)
    folded.fold("jobs", b"purged", None, AT + 500 * WEEK)
    entry = make_entry(job, "mail:send/a", status="done", first_claimed_at=AT, updated_at=AT + 9)
    folded.fold("ledger", b"a", LEDGER_ENTRY.encode(entry), AT + 500 * WEEK)
    folded.job(replace(job, job_id="job_2"))
    assert folded.outcomes(AT, "shop", "order.paid") == {"succeeded": 2}
    assert folded.outcomes(AT, "mail:send") == {"done": 1}
    assert folded.counted.stream_time == AT + 9


@pytest.mark.parametrize("at", [-1, -WEEK, -5 * WEEK])
def test_a_time_before_1970_has_no_window(folded: Folded, at: int) -> None:
    """A record without a time bears -1."""
    event(folded, "e1", at)
    job = event_job(make_event("e1"), event_time=at, status="dead", updated_at=at)
    folded.fold("jobs", job.job_id.encode(), JOB.encode(job), at)
    folded.counted.write()
    assert folded.tables.numbers() == []
    assert CountedPartition(folded.tables, WEEK).waiting == {}


def test_redeliveries_are_counted_when_they_came(folded: Folded) -> None:
    for count, last in ((2, AT + 10), (2, AT + 10), (5, AT + 120_000)):
        again = Duplicate("acme", count, AT, last, None, "shop", "order.paid")
        folded.fold("duplicates", b"f" * 16, DUPLICATE.encode(again))
    first, later = (folded.row(at, "shop", "order.paid") for at in (AT, AT + 120_000))
    assert first
    assert later
    assert (first.redeliveries, later.redeliveries) == (2, 3)


def test_the_next_window_of_an_event_counts_anew(folded: Folded) -> None:
    for first_at in (AT, AT + WEEK):
        again = Duplicate("acme", 3, first_at, first_at + 1, None, "shop", "order.paid")
        folded.fold("duplicates", b"f" * 16, DUPLICATE.encode(again), first_at + 1)
    row = folded.row(AT + WEEK, "shop", "order.paid")
    assert row
    assert row.redeliveries == 3


def test_a_job_ends_once_however_often_its_record_is_written(folded: Folded) -> None:
    job = event_job(make_event("e1"), event_time=AT, ready_at=AT)
    lived: list[tuple[JobStatus, int]] = [
        ("pending", 0),
        ("running", 5),
        ("dead", 900),
        ("dead", 900),
    ]
    for status, later in lived:
        folded.job(replace(job, status=status, updated_at=AT + later))
    folded.job(replace(job, status="dead", updated_at=AT + 900, replayed_as="job_b"))
    row = folded.row(AT, "shop", "order.paid")
    assert row
    assert row.outcomes == {"dead": 1}
    assert row.took.quantile(0.5) == pytest.approx(900, rel=0.02)


def test_a_job_that_lives_again_takes_its_end_back(folded: Folded) -> None:
    job = event_job(make_event("e1"), event_time=AT)
    folded.job(replace(job, status="dead", updated_at=AT + 5))
    folded.job(replace(job, status="pending", updated_at=AT + 6))
    assert folded.outcomes(AT, "shop", "order.paid") == {}
    folded.job(replace(job, status="succeeded", updated_at=AT + 9))
    assert folded.outcomes(AT, "shop", "order.paid") == {"succeeded": 1}


def test_incarnations_are_counted_apart(folded: Folded) -> None:
    job = event_job(make_event("e1"), event_time=AT, status="succeeded", updated_at=AT + 1)
    folded.job(job)
    folded.job(replace(job, incarnation=2, event_time=AT + WEEK, updated_at=AT + WEEK + 1))
    assert folded.outcomes(AT, "shop", "order.paid") == {"succeeded": 1}
    assert folded.outcomes(AT + WEEK, "shop", "order.paid") == {"succeeded": 1}


def test_a_direct_submission_has_its_jobs_type(folded: Folded) -> None:
    folded.job(make_job("job_a", event_time=AT, status="failed", updated_at=AT + 1))
    assert folded.outcomes(AT, folds.DIRECT, "draft_reply") == {"failed": 1}


def test_purging_a_job_keeps_its_figures_and_ends_its_waiting(folded: Folded) -> None:
    job = event_job(make_event("e1"), event_time=AT, status="succeeded", updated_at=AT + 1)
    folded.job(job)
    folded.job(make_job("job_w", event_time=AT, ready_at=AT))
    assert list(folded.counted.waiting.values()) == [("acme", "-", "draft_reply", AT)]
    for key in (job.job_id.encode(), b"job_w"):
        folded.fold("jobs", key, None)
    assert folded.counted.waiting == {}
    assert folded.outcomes(AT, "shop", "order.paid") == {"succeeded": 1}


def test_waiting_jobs_are_known_again_after_a_restart(folded: Folded) -> None:
    folded.job(make_job("job_w", event_time=AT, ready_at=AT + 7))
    folded.job(make_job("job_r", event_time=AT, ready_at=AT + 7))
    folded.job(make_job("job_r", event_time=AT, status="running"))
    folded.counted.write()
    again = CountedPartition(folded.tables, WEEK)
    assert again.waiting == {b"job_w": ("acme", "-", "draft_reply", AT + 7)}
    assert again.position == 3


def test_waiting_jobs_share_their_texts(folded: Folded) -> None:
    """A million jobs may wait."""
    for number in range(2):
        folded.job(make_job(f"job_{number}", event_time=AT, ready_at=AT))
    folded.counted.write()
    for counted in (folded.counted, CountedPartition(folded.tables, WEEK)):
        first, second = counted.waiting.values()
        assert all(map(operator.is_, first[:3], second[:3]))


def test_rows_of_past_minutes_are_not_held_in_memory(folded: Folded) -> None:
    """A process may have hundreds of partitions, and a row with many subjects takes 4 KiB."""
    event(folded, "e0", AT, subject="s")
    folded.counted.write()
    tracemalloc.start()
    for minute in range(30):
        for number in range(70):
            event(folded, f"e{number}", AT + minute * 60_000, subject=f"s{number}")
        folded.counted.write()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < 60_000


def test_an_effect_counts_once_under_its_newest_status(folded: Folded) -> None:
    for action, statuses in (
        ("mail:send/a", ["claimed", "failed", "claimed", "done"]),
        ("mail:send/b", ["claimed", "unknown"]),
        ("@tenant/mail:send/a", ["shared", "done"]),  # a job's note of an effect of its own
    ):
        for status in statuses:
            entry = make_entry(make_job(), action, status=status, first_claimed_at=AT)
            folded.fold("ledger", action.encode(), LEDGER_ENTRY.encode(entry))
    folded.fold("ledger", b"mail:send/a", None)
    assert folded.outcomes(AT, "mail:send") == {"done": 1, "unknown": 1}
    assert folded.outcomes(AT, "@tenant") == {}


@pytest.mark.parametrize("topic", sorted(folds.FOLDS))
def test_what_cannot_be_read_changes_nothing(folded: Folded, topic: str) -> None:
    with pytest.raises(DecodeError):
        folded.fold(topic, b"k", b"\0\0\0\0\1garbage")
    folded.counted.advance(0, AT)
    folded.counted.write()
    assert folded.tables.numbers() == []


@pytest.mark.parametrize(
    ("follows", "offset", "verdict"),
    [
        (7, 7, "next"),
        (5, 9, "next"),
        (3, 5, "again"),
        (8, 9, "gap"),
        (None, 8, "gap"),
        (None, 5, "again"),
    ],
)
def test_only_the_record_that_continues_is_next(
    folded: Folded, follows: int | None, offset: int, verdict: str
) -> None:
    folded.counted.advance(6, AT)
    assert folded.counted.accepts(follows, offset) == verdict


def test_tables_and_position_are_written_together_or_not_at_all(folded: Folded) -> None:
    event(folded, "e1", AT)
    folded.counted.write()
    event(folded, "e2", AT)
    crashed = CountedPartition(folded.tables, WEEK)
    assert crashed.position == 1
    event(again := Folded(), "ignored", AT)
    again.counted, again.tables = crashed, folded.tables
    event(again, "e2", AT)
    row = again.row(AT, "shop", "order.paid")
    assert row
    assert row.events == 2


def test_what_fails_half_way_is_not_written_and_counted_by_the_next_process(
    folded: Folded,
) -> None:
    """A disk may refuse to read the hour's row when the minute's has changed already."""
    event(folded, "e1", AT)
    folded.counted.write()
    event(folded, "e2", AT)

    reads = [None, ConfigError("the disk fails")]
    value = ENVELOPE.encode(make_event("e3"))
    record = Message("events", 0, 2, (AT + 3_600_000) / 1000, 0, [], b"acme", value, None)
    with (
        patch.object(folded.tables, "get", side_effect=reads),
        pytest.raises(ConfigError, match="the disk fails"),
    ):
        fold("events", folded.counted, record)
    folded.counted.close()
    again = CountedPartition(folded.tables, WEEK)
    assert again.position == 1
    row = folded.row(AT, "shop", "order.paid")
    assert row
    assert row.events == 1


STATUSES = st.sampled_from(["pending", "running", "succeeded", "dead"])
LIVES = st.lists(
    st.tuples(st.integers(0, 3), STATUSES, st.integers(1, 90_000), st.booleans()), max_size=25
)


@given(LIVES)
def test_compaction_changes_no_figure_of_jobs_and_effects(
    lives: list[tuple[int, JobStatus, int, bool]],
) -> None:
    """Only the newest record of each key may be left, and the rows are the same."""
    written = []
    for number, status, later, is_job in lives:
        job = make_job(f"job_{number}", event_time=AT + number * 50_000, status=status)
        job = replace(job, updated_at=job.event_time + later)
        entry = make_entry(job, "mail:send/a", first_claimed_at=AT, status=status)
        kind = ("jobs", JOB.encode(job)) if is_job else ("ledger", LEDGER_ENTRY.encode(entry))
        written.append((kind[0], job.job_id.encode(), kind[1]))
    compacted = {(topic, key): value for topic, key, value in written}
    assert rows_after(written) == rows_after([(*key, compacted[key]) for key in compacted])


def rows_after(records: list[tuple[str, bytes, bytes]]) -> dict[bytes, bytes]:
    folded = Folded()
    for topic, key, value in records:
        folded.fold(topic, key, value)
    folded.counted.write()
    found = folded.tables.range(AT // WEEK + 1, b"", b"\xff")
    return {key: value for key, value in found if value != Figures().encode()}


FAR = 2**63 - 1


@pytest.mark.parametrize(
    ("topic", "values"),
    [
        ("duplicates", [DUPLICATE.encode(Duplicate("acme", FAR, AT, AT, None))] * 4),
        (
            "jobs",
            [
                JOB.encode(replace(make_job("j", status="dead"), event_time=at, updated_at=-at))
                for at in (FAR, -FAR)
            ],
        ),
    ],
)
def test_numbers_that_no_stage_writes_do_not_end_the_count(
    folded: Folded, topic: str, values: list[bytes]
) -> None:
    """Their sums and differences have more than 64 bits, which no row can hold."""
    for number, value in enumerate(values):
        folded.fold(topic, bytes([number]), value)
    folded.counted.write()
    assert folded.counted.position == len(values)


_NAMES = {"events": "envelope", "duplicates": "duplicate", "jobs": "job", "ledger": "ledger_entry"}
_ODD = st.one_of(
    *(
        st.tuples(
            st.just(topic), KEYS, framed(name, tenant_id="acme") | framed(name) | broken(name)
        )
        for topic, name in _NAMES.items()
    )
)


@pytest.mark.long
@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(_ODD, max_size=6))
def test_whatever_stands_on_a_topic_is_counted_or_left_out(
    records: list[tuple[str, bytes | None, bytes | None]],
) -> None:
    for topic in _NAMES:
        tables = MemoryTables()
        counted = CountedPartition(tables, WEEK)
        own = [record for record in records if record[0] == topic]
        for offset, (_, key, value) in enumerate(own):
            message = SimpleNamespace(key=key, value=value, timestamp=AT / 1000, offset=offset)
            message.partition = 0
            fold(topic, counted, message)
        counted.write()
        assert CountedPartition(tables, WEEK).position == len(own)
