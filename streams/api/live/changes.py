"""What changed beside a job's own record: its progress, its finished steps, and its effects.

A job may have thousands of steps, and each may be large. So the places of all changes are found
first, and what is told of them is read only for those that a page has room for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from streams.api.effects.table import changed_effects, effect, effect_json
from streams.api.live.frames import Event, Frame, Place
from streams.api.live.page import PAGE_BYTES, Limit, Page
from streams.api.live.position import LEDGER, PROGRESS, STEPS, Position
from streams.api.live.statuses import JobRow
from streams.api.rows.json_values import Json, json_bytes, parsed
from streams.api.steps.table import step, step_json, steps_since
from streams.http.moments import rfc3339
from streams.serde.records import Job

_PAGE_FRAMES = 100


@dataclass(frozen=True, slots=True)
class _Change:
    """A record that the reader has not seen; `told` reads what is told of it, or None."""

    event: Event
    job_id: str
    place: Place
    told: Callable[[], Json | None]


_Unseen = Callable[[sqlite3.Connection, JobRow, Position], Iterator[_Change]]


def beside(
    connection: sqlite3.Connection,
    table: str,
    rows: Mapping[str, JobRow],
    position: Position,
    limit: Limit,
    page: Page,
) -> Iterator[Frame]:
    """Yield what changed of these jobs in a table, in order, up to where the page is full.

    A record from the limit on waits for its own change.
    """
    found = [
        change
        for row in rows.values()
        for change in _TABLES[table](connection, row, position)
        if change.place.offset < limit(change.place.partition, change.place.topic)
    ]
    found.sort(key=lambda change: (change.place.partition, change.place.offset))
    size = 0
    for number, change in enumerate(found):
        if number == _PAGE_FRAMES or size > PAGE_BYTES:
            page.again |= {(left.job_id, table) for left in found[number:]}
            return
        data = change.told()
        if data is not None:
            size += len(json_bytes(data))
            following = found[number + 1].place if number + 1 < len(found) else None
            place = _before(change.place) if change.place == following else change.place
            yield Frame(change.event, data, place)


def _progress(connection: sqlite3.Connection, row: JobRow, seen: Position) -> Iterator[_Change]:
    """Yield the newest progress, if the reader has not seen it."""
    job = row.job
    places = connection.execute(
        "SELECT off FROM progress WHERE job_id = ? AND tenant_id = ? AND off >= ?",
        (job.job_id, job.tenant_id, seen.of(row.partition, PROGRESS)),
    )
    for (off,) in places:
        place = Place(row.partition, PROGRESS, off)
        yield _Change("progress", job.job_id, place, partial(_progress_json, connection, job))


def _progress_json(connection: sqlite3.Connection, job: Job) -> Json:
    run_id, at, value = connection.execute(
        "SELECT run_id, at, value FROM progress WHERE job_id = ?", (job.job_id,)
    ).fetchone()
    return {"job_id": job.job_id, "run_id": run_id, "at": rfc3339(at), "value": parsed(value)}


def _steps(connection: sqlite3.Connection, row: JobRow, seen: Position) -> Iterator[_Change]:
    """Yield the finished steps and waits that the reader has not seen."""
    job = row.job
    offset = seen.of(row.partition, STEPS)
    for off, name in steps_since(connection, job, offset, _PAGE_FRAMES + 1):
        place = Place(row.partition, STEPS, off)
        yield _Change("step", job.job_id, place, partial(_step_json, connection, job, name))


def _step_json(connection: sqlite3.Connection, job: Job, name: str) -> Json:
    return {"job_id": job.job_id, **step_json(step(connection, job, name))}


def _effects(connection: sqlite3.Connection, row: JobRow, seen: Position) -> Iterator[_Change]:
    """Yield the effects that changed since the reader saw them."""
    job = row.job
    offset = seen.of(row.partition, LEDGER)
    for off, action in changed_effects(connection, job, offset, _PAGE_FRAMES + 1):
        place = Place(row.partition, LEDGER, off)
        yield _Change("effect", job.job_id, place, partial(_effect_json, connection, job, action))


def _effect_json(connection: sqlite3.Connection, job: Job, action: str) -> Json | None:
    """What is told of an effect.

    One that several jobs share names the job that makes it as its `job_id`, so the job of the
    frame is its `of_job`.
    """
    entry = effect(connection, job, action)
    return None if entry is None else {"of_job": job.job_id, **effect_json(entry)}


_TABLES: Mapping[str, _Unseen] = {"progress": _progress, "effects": _effects, "steps": _steps}
BESIDE = tuple(_TABLES)
"""The tables of changes beside a job's own record, in the order in which a page has them."""


def _before(place: Place) -> Place:
    """Where a record is not seen yet: another job of the stream shares it, and is told next."""
    return replace(place, offset=place.offset - 1)
