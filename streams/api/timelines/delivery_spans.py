"""The spans of outgoing deliveries and of their attempts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from streams.api.deliveries import table as deliveries
from streams.api.deliveries.attempts_table import ended_attempts
from streams.api.rows.json_values import trace_id
from streams.api.timelines.span import Span, link
from streams.serde.delivery_records import Delivery, DeliveryAttempt
from streams.serde.delivery_states import DELIVERED, PARKED, PENDING
from streams.serde.records import Job


def of_job(connection: sqlite3.Connection, job: Job) -> list[tuple[str, Delivery]]:
    """Return the deliveries of a job's end and approvals, each below the job."""
    rows = deliveries.rows_of_job(connection, job.tenant_id, job.job_id)
    return [(job.job_id, row) for row in rows]


def of_event(
    connection: sqlite3.Connection, tenant_id: str, event_id: str
) -> list[tuple[str, Delivery]]:
    """Return the deliveries of an event itself, each below the event."""
    rows = deliveries.rows_of_event(connection, tenant_id, event_id)
    return [(event_id, row) for row in rows if row.job_id is None]


def delivery_spans(
    connection: sqlite3.Connection, found: Iterable[tuple[str, Delivery]]
) -> Iterator[Span]:
    """Yield a span for each delivery, followed by those of its attempts that are kept."""
    for parent, row in found:
        trace, shown = trace_id(row.traceparent), link("deliveries", row.delivery_id)
        yield Span(
            "delivery",
            f"{row.type} to {row.url or row.endpoint_id}",
            row.delivery_id,
            parent,
            row.created_at,
            None if row.status in (PENDING, PARKED) else row.updated_at,
            row.status,
            shown,
            row.parked_because or (None if row.status == DELIVERED else row.last_error),
            failed=row.status not in (PENDING, DELIVERED),
            trace_id=trace,
        )
        for ended in ended_attempts(connection, row):
            yield _attempt(row, ended, shown, trace)


def _attempt(row: Delivery, ended: DeliveryAttempt, shown: str, trace: str | None) -> Span:
    told = [str(ended.status or ""), ended.error or "", ended.detail]
    return Span(
        "attempt",
        f"attempt {ended.attempt}",
        f"{row.delivery_id}/{ended.attempt}",
        row.delivery_id,
        ended.at,
        ended.at + ended.duration_ms,
        ended.error or DELIVERED,
        shown,
        " ".join(filter(None, told)) or None,
        failed=ended.error is not None,
        trace_id=trace,
    )
