"""The timeline of an event, or of a job: from delivery to effects."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from streams.api.events import table as events
from streams.api.events.known import unknown_event
from streams.api.jobs import replays
from streams.api.jobs import table as jobs
from streams.api.jobs.known import unknown_job
from streams.api.jobs.running import RunningJobs
from streams.api.jobs.superseded import taker_of
from streams.api.jobs.waits import waits_of
from streams.api.operator_state import AppState
from streams.api.refusal import invalid
from streams.api.rows.cursor import Cursor
from streams.api.rows.json_values import Json, trace_id
from streams.api.rows.paging import PageQuery
from streams.api.timelines.event_spans import event_spans
from streams.api.timelines.job_spans import Member
from streams.api.timelines.span import Span, SpanKind, span_json
from streams.api.timelines.walk import Asked, page, start_at
from streams.http.moments import rfc3339
from streams.serde.job_states import TERMINAL
from streams.serde.records import Envelope, Job
from streams.topology.model import Topology

MOST_SPANS = 1_000


async def of_event(state: AppState, event_id: str, query: PageQuery) -> Json:
    """Return a page of the timeline of an event.

    Raises:
        Refusal: 404, there is no such event; 422, the cursor is of another list.
    """
    asked = _asked(query)
    shown = await state.query(lambda db: event_page(db, event_id, asked, state.topology))
    if shown is None:
        raise unknown_event(event_id)
    return shown


async def of_job(state: AppState, job_id: str, query: PageQuery) -> Json:
    """Return a page of the timeline of a job, with its replays and the jobs that it asked for.

    Raises:
        Refusal: 404, there is no such job; 422, the cursor is of another list.
    """
    asked = _asked(query)
    shown = await state.query(lambda db: job_page(db, job_id, asked, state.topology))
    if shown is None:
        raise unknown_job(job_id)
    return shown


def _asked(query: PageQuery) -> Asked:
    try:
        start = start_at(query.cursor)
    except ValueError:
        raise invalid("cursor", "must be the next_cursor of an earlier answer") from None
    return Asked(start, query.limit, query.filters.get("failed_only") == "true")


def event_page(
    connection: sqlite3.Connection, event_id: str, asked: Asked, topology: Topology
) -> Json | None:
    """Return a page of the timeline of an event; None if there is no such event."""
    found = events.event(connection, event_id)
    if found is None:
        return None
    roots = list({each.job.job_id: each for each in _jobs_of(connection, found, topology)}.values())
    arrived = events.arrival(connection, event_id)
    head = event_spans(connection, found, arrived, has_job=bool(roots))
    first = roots[0].job if roots else None
    spans, after = page(connection, head, roots, asked)
    return _timeline_json(found.tenant_id, event_id, first, spans, after)


def job_page(
    connection: sqlite3.Connection, job_id: str, asked: Asked, topology: Topology
) -> Json | None:
    """Return a page of the timeline of a job; None if there is no such job."""
    found = jobs.job(connection, job_id)
    if found is None:
        return None
    roots = [
        _member(connection, found, "job", None, topology),
        *_replays(connection, found, topology),
    ]
    spans, after = page(connection, (), roots, asked)
    event_id = None if found.event is None else found.event.event_id
    return _timeline_json(found.tenant_id, event_id, found, spans, after)


def _timeline_json(
    tenant_id: str,
    event_id: str | None,
    job: Job | None,
    spans: Sequence[Span],
    after: Cursor | None,
) -> Json:
    """Return a page of a timeline; `from` and `to` are those of its spans."""
    ends = [span.ends for span in spans]
    known = [end for end in ends if end is not None]
    return {
        "tenant_id": tenant_id,
        "event_id": event_id,
        "job_id": None if job is None else job.job_id,
        "trace_id": None if job is None else trace_id(job.traceparent),
        "from": rfc3339(min((span.begins for span in spans), default=None)),
        "to": rfc3339(None if None in ends else max(known, default=None)),
        "spans": [span_json(span) for span in spans],
        "next_cursor": None if after is None else str(after),
    }


def _jobs_of(connection: sqlite3.Connection, found: Envelope, topology: Topology) -> list[Member]:
    """Return the event's own job, the one that runs for it, their replays, and those of events."""
    tenant_id, members = found.tenant_id, list[Member]()
    job_id = events.job_id_of(connection, found)
    if job_id is not None:
        own = jobs.job(connection, job_id)
        taker = taker_of(connection, job_id, tenant_id)
        if own is not None:
            members.append(_member(connection, own, "job", found.event_id, topology))
            members += _replays(connection, own, topology)
        if taker != job_id and (other := jobs.job(connection, taker)) is not None:
            members.append(_member(connection, other, "job", job_id, topology))
    made = replays.of_event(connection, tenant_id, found.event_id)
    return [*members, *_known(connection, made, found.event_id, topology)]


def _replays(connection: sqlite3.Connection, job: Job, topology: Topology) -> list[Member]:
    made = replays.replays(connection, job.tenant_id, job.job_id, of_replays=True)
    return _known(connection, made, job.job_id, topology)


def _known(
    connection: sqlite3.Connection, made: Iterable[Json], parent: str, topology: Topology
) -> list[Member]:
    """Return replays as members, each below the job that it replays, otherwise below `parent`."""
    found = ((each, jobs.job(connection, each["job_id"])) for each in made)
    return [
        _member(connection, job, "replay", each["replay_of"] or parent, topology)
        for each, job in found
        if job is not None
    ]


def _member(
    connection: sqlite3.Connection,
    job: Job,
    kind: SpanKind,
    parent: str | None,
    topology: Topology,
) -> Member:
    """Return a job with why it waits, which is told of an event's own jobs alone: it costs more."""
    if job.status in TERMINAL:
        return Member(job, kind, parent)
    details = jobs.details_of(connection, job, topology)
    why = waits_of(RunningJobs(connection, topology), job, details, topology)
    return Member(job, kind, parent, None if why is None else str(why["detail"]))
