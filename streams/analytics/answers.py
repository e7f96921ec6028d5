"""The answers of the API as JSON objects; every time is RFC 3339 in UTC."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from streams.analytics.figures import Figures
from streams.analytics.partitions import TOPICS, Assignment
from streams.analytics.query import Query, effects, oldest_waiting, rows, total
from streams.analytics.windows import STEPS
from streams.http.moments import text

Answer = dict[str, Any]


def summary(assignment: Assignment, query: Query, now: int) -> Answer:
    """All windows of the query in one, with the effects and the job that waits longest."""
    waits = oldest_waiting(assignment, query)
    return {
        **shown(total(rows(assignment, query))),
        "effects": effects(assignment, query),
        "oldest_waiting_seconds": None if waits is None else max(0, now - waits) // 1000,
        **_about(assignment, query),
    }


def series(assignment: Assignment, query: Query) -> Answer:
    """One point for each window of the query, empty ones included."""
    points: defaultdict[int, Figures] = defaultdict(Figures)
    for key, figures in rows(assignment, query):
        points[key.start].merge(figures)
    starts = range(query.since, query.until, STEPS[query.step].ms)
    listed = [{"at": text(start), **shown(points[start])} for start in starts]
    return {"points": listed, **_about(assignment, query)}


def top(assignment: Assignment, query: Query, limit: int) -> Answer:
    """The tenants' sources and types with the most deliveries, at most `limit` of them.

    `deliveries` has a number for each window of the query: events and redeliveries.
    """
    # Sum up the listed ones alone: bodies name the types, and a million sketches are 4 GiB.
    sums = Counter[tuple[str, ...]]()
    for key, figures in rows(assignment, query):
        sums[key.tenant_id, *key.dimensions] += _deliveries(figures)
    busiest = sorted(sums, key=lambda who: (-sums[who], who))[:limit]
    merged = {who: Figures() for who in busiest}
    windows = {who: Counter[int]() for who in busiest}
    for key, figures in rows(assignment, query):
        who = (key.tenant_id, *key.dimensions)
        if who in merged:
            merged[who].merge(figures)
            windows[who][key.start] += _deliveries(figures)
    starts = range(query.since, query.until, STEPS[query.step].ms)
    listed = [
        {
            **dict(zip(("tenant_id", "source", "type"), who, strict=True)),
            **shown(figures),
            "deliveries": [windows[who][start] for start in starts],
        }
        for who, figures in merged.items()
    ]
    return {"rows": listed, "of": len(sums), **_about(assignment, query)}


def shown(figures: Figures) -> Answer:
    """The figures under the names that docs/analytics.md explains."""
    quantiles = {f"p{share}": figures.took.quantile(share / 100) for share in (50, 95, 99)}
    return {
        "events": figures.events,
        "redeliveries": figures.redeliveries,
        "subjects": figures.subjects.estimate,
        "jobs": dict(sorted(figures.outcomes.items())),
        "event_to_end_ms": {
            name: None if at is None else round(at) for name, at in quantiles.items()
        },
    }


def _deliveries(figures: Figures) -> int:
    return figures.events + figures.redeliveries


def _about(assignment: Assignment, query: Query) -> Answer:
    home = None if query.tenant_id is None else assignment.home(query.tenant_id)
    counted_to = {
        topic: max(
            (each.stream_time for number, each in assignment.of(topic) if home in (None, number)),
            default=0,
        )
        for topic in TOPICS
    }
    return {
        "step": query.step,
        "since": text(query.since),
        "until": text(query.until),
        "counted_to": {topic: text(at) if at else None for topic, at in counted_to.items()},
        "missing": assignment.missing(query.tenant_id),
    }
