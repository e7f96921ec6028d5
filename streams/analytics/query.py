"""Reads windows out of the tables and sums them up; safe in a thread beside the counting.

Every query names a span of whole windows. A tenant's query touches that tenant's rows alone: they
lie under keys of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from streams.analytics.figures import Figures
from streams.analytics.partition import CountedPartition, Waiting
from streams.analytics.partitions import Assignment
from streams.analytics.windows import (
    STEPS,
    WAITING,
    RowKey,
    StepName,
    parse_row_key,
    span_key,
    tenant_prefix,
)
from streams.serde.keys import after

BY_SOURCE = ("events", "duplicates", "jobs")
"""The topics whose rows have a source and a type; those of `ledger` have a tool."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which windows: `since` <= start < `until`, in milliseconds; None takes every value."""

    step: StepName
    since: int
    until: int
    tenant_id: str | None = None
    source: str | None = None
    type: str | None = None

    def wants(self, source: str, type_: str) -> bool:
        """Whether it asks for this source and type."""
        return self.source in (None, source) and self.type in (None, type_)


def rows(assignment: Assignment, query: Query) -> Iterator[tuple[RowKey, Figures]]:
    """The rows of events, redeliveries and jobs in the query's windows; a key may come thrice."""
    for topic in BY_SOURCE:
        for _, counted in assignment.of(topic):
            for key, figures in _read(counted, query):
                if query.wants(*key.dimensions):
                    yield key, figures


def effects(assignment: Assignment, query: Query) -> dict[str, dict[str, int]]:
    """By tool and status, the effects that were first claimed in the query's windows."""
    found: dict[str, Figures] = {}
    for _, counted in assignment.of("ledger"):
        for key, figures in _read(counted, query):
            found.setdefault(key.dimensions[0], Figures()).merge(figures)
    return {tool: found[tool].outcomes for tool in sorted(found) if found[tool].outcomes}


def total(found: Iterable[tuple[RowKey, Figures]]) -> Figures:
    merged = Figures()
    for _, figures in found:
        merged.merge(figures)
    return merged


def oldest_waiting(assignment: Assignment, query: Query) -> int | None:
    """Since when, in milliseconds, the longest waiting job of all waits for a worker."""
    waiting = (each for _, counted in assignment.of("jobs") for each in _waiting(counted))
    return min(
        (
            since
            for tenant_id, source, type_, since in waiting
            if query.tenant_id in (None, tenant_id) and query.wants(source, type_)
        ),
        default=None,
    )


def _waiting(counted: CountedPartition) -> list[Waiting]:
    return list(counted.waiting.values())


def _read(counted: CountedPartition, query: Query) -> Iterator[tuple[RowKey, Figures]]:
    first = query.since // counted.segment_ms + 1
    last = (query.until - 1) // counted.segment_ms + 1
    for number in counted.tables.numbers():
        if number != WAITING and first <= number <= last:
            for tenant_id in _tenants(counted, number, query):
                start, end = (
                    span_key(STEPS[query.step], tenant_id, at) for at in (query.since, query.until)
                )
                for key, value in counted.tables.range(number, start, end):
                    yield parse_row_key(key), Figures.decode(value)


def _tenants(counted: CountedPartition, number: int, query: Query) -> Iterator[str]:
    """The tenants that have rows in a segment, found by skipping over their rows."""
    if query.tenant_id is not None:
        yield query.tenant_id
        return
    step = STEPS[query.step]
    at, end = step.prefix, after(step.prefix)
    while (found := next(counted.tables.range(number, at, end), None)) is not None:
        tenant_id = parse_row_key(found[0]).tenant_id
        yield tenant_id
        at = after(tenant_prefix(step, tenant_id))
