"""What the API answers from tables in memory: whole windows, one tenant, one source, one type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from multidict import MultiDict
from support.operator_cluster import event_job, make_event, make_job

from streams.analytics import answers, folds
from streams.analytics.figures import Figures
from streams.analytics.partition import CountedPartition
from streams.analytics.partitions import Assignment
from streams.analytics.query import Query
from streams.analytics.request import BadRequest, limit, query
from streams.http.moments import milliseconds, text
from streams.serde.codec import ENVELOPE, JOB
from streams.state.memory import MemoryTables

WEEK = 7 * 86_400_000
NOW = milliseconds("2026-11-26T00:01:30Z")  # a segment began 90 seconds ago
DAY = 86_400_000
WHOLE = Query("hour", NOW - WEEK, NOW + DAY)


class InMemory:
    """Two partitions of events and of jobs."""

    def __init__(self) -> None:
        self.found = {
            (topic, number): CountedPartition(MemoryTables(), WEEK)
            for topic in ("events", "jobs")
            for number in (0, 1)
        }

    def of(self, topic: str) -> Iterator[tuple[int, CountedPartition]]:
        for (name, number), counted in self.found.items():
            if name == topic:
                yield number, counted

    def home(self, tenant_id: str) -> int:
        return 0

    def missing(self, tenant_id: str | None = None) -> list[str]:
        return []

    def event(self, at: int, tenant: str = "acme", number: int = 0, **fields: str) -> None:
        value = ENVELOPE.encode(make_event(f"e{at}", tenant, **fields))
        counted = self.found["events", number]
        folds.event(counted, b"", value, at)
        counted.advance(counted.position, at)
        counted.write()

    @property
    def assignment(self) -> Assignment:
        return cast(Assignment, self)


@pytest.fixture
def tables() -> InMemory:
    return InMemory()


def test_a_span_over_two_segments_and_partitions_is_summed_up(tables: InMemory) -> None:
    assert (NOW - 100_000) // WEEK != NOW // WEEK
    for at in (NOW, NOW - 100_000, NOW - 3 * DAY):
        tables.event(at)
    tables.event(NOW, "bolt", 1)
    assert answers.summary(tables.assignment, WHOLE, NOW)["events"] == 4
    assert [row["tenant_id"] for row in answers.top(tables.assignment, WHOLE, 9)["rows"]] == [
        "acme",
        "bolt",
    ]


def test_a_tenant_sees_its_own_rows_alone_though_names_begin_alike(tables: InMemory) -> None:
    for tenant in ("acme", "acme2", "a", "bolt"):
        tables.event(NOW, tenant)
        tables.event(NOW, tenant, source="desk")
    for tenant in ("acme", "acme2", "a"):
        own = replace(WHOLE, tenant_id=tenant)
        assert answers.summary(tables.assignment, own, NOW)["events"] == 2
        rows = answers.top(tables.assignment, own, 9)["rows"]
        assert {row["tenant_id"] for row in rows} == {tenant}
        assert answers.summary(tables.assignment, replace(own, source="desk"), NOW)["events"] == 1
    assert answers.summary(tables.assignment, replace(WHOLE, tenant_id=""), NOW)["events"] == 0


def test_a_series_has_each_window_and_top_the_same_ones(tables: InMemory) -> None:
    for at in (NOW, NOW + 59_000, NOW + 120_000):
        tables.event(at)
    start = NOW - NOW % 60_000
    asked = Query("minute", start, start + 5 * 60_000)
    points = answers.series(tables.assignment, asked)["points"]
    assert [point["events"] for point in points] == [1, 1, 1, 0, 0]
    assert points[0]["at"] == text(start)
    (row,) = answers.top(tables.assignment, asked, 5)["rows"]
    assert row["deliveries"] == [1, 1, 1, 0, 0]


def test_top_sums_up_only_what_it_lists(tables: InMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sketch of subjects takes 4 KiB, and there are as many types as bodies name."""
    made = list[Figures]()

    def figures() -> Figures:
        made.append(Figures())
        return made[-1]

    monkeypatch.setattr(answers, "Figures", figures)
    for number in range(50):
        tables.event(NOW + number, event_type=f"t{number % 49}")
    found = answers.top(tables.assignment, Query("hour", NOW - NOW % 3_600_000, NOW + DAY), 2)
    assert [(row["type"], row["events"]) for row in found["rows"]] == [("t0", 2), ("t1", 1)]
    assert (found["of"], len(made)) == (49, 2)


def test_the_job_that_waits_longest_is_the_tenants_own(tables: InMemory) -> None:
    for tenant, seconds in (("acme", 40), ("bolt", 90)):
        job = event_job(make_event("e", tenant), ready_at=NOW - seconds * 1000)
        folds.job(tables.found["jobs", 0], job.job_id.encode(), JOB.encode(job), NOW)
    direct = make_job("job_d", ready_at=NOW - 5_000)
    folds.job(tables.found["jobs", 1], b"job_d", JOB.encode(direct), NOW)

    def waits(**asked: Any) -> int | None:
        found = answers.summary(tables.assignment, replace(WHOLE, **asked), NOW)
        seconds: int | None = found["oldest_waiting_seconds"]
        return seconds

    assert waits() == 90
    assert waits(tenant_id="acme") == 40
    assert waits(tenant_id="acme", type="draft_reply") == 5
    assert waits(tenant_id="acme", source="desk") is None


@pytest.mark.parametrize(
    ("given", "step", "since", "until"),
    [
        ("", "minute", "2026-11-25T23:01:00Z", "2026-11-26T00:02:00Z"),
        (
            "since=2026-11-25T00:00:30Z&until=2026-11-25T00:01:00Z",
            "minute",
            "2026-11-25T00:00:00Z",
            "2026-11-25T00:01:00Z",
        ),
        ("since=2026-11-24T00:00:00Z", "hour", "2026-11-24T00:00:00Z", "2026-11-26T01:00:00Z"),
        (
            "since=2026-11-25T22:10:00Z&step=hour",
            "hour",
            "2026-11-25T22:00:00Z",
            "2026-11-26T01:00:00Z",
        ),
        ("since=2020-01-01T00:00:00Z", "hour", "2026-11-19T00:00:00Z", "2026-11-26T01:00:00Z"),
        (
            "since=2026-11-26T00:00:00Z&until=9999-12-31T23:59:59.999Z",
            "hour",
            "2026-11-26T00:00:00Z",
            "2026-11-27T01:00:00Z",
        ),
    ],
)
def test_spans_are_whole_windows_of_the_last_week_and_a_day_ahead_at_most(
    given: str, step: str, since: str, until: str
) -> None:
    asked = query(query_string(given), NOW)
    assert (asked.step, text(asked.since), text(asked.until)) == (step, since, until)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("tenant=acme", "tenant is no parameter"),
        ("tenant_id=a&tenant_id=b", "tenant_id is given more than once"),
        ("step=day", "step is minute or hour"),
        ("since=2026-11-24T00:00:00Z&step=minute", "step=hour"),
        ("since=yesterday", "since must be an RFC 3339 time"),
        ("until=2020-01-01T00:00:00Z", "until within the last 7 days"),
        ("limit=3", "limit is no parameter"),
    ],
)
def test_what_has_no_answer_is_refused_by_name(given: str, named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        query(query_string(given), NOW)


@pytest.mark.parametrize(
    "given", ["0", "201", "x", "", "٣", "1" * 5000, "0" * 8 + "1999", "0" * 5000 + "1"]
)
def test_a_limit_has_bounds(given: str) -> None:
    with pytest.raises(BadRequest, match="from 1 to 200"):
        limit(MultiDict({"limit": given}))


def query_string(given: str) -> MultiDict[str]:
    pairs = (pair.partition("=") for pair in given.split("&") if pair)
    return MultiDict([(name, value) for name, _, value in pairs])
