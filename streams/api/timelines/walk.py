"""Walks the jobs of a timeline, one after the other, from any place in it.

First come the spans of the event itself. Then comes each of its jobs and replays, and behind each
the jobs that it asked for, at any depth, in the order in which they were made. So a page reads
about as many jobs as it shows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson

from streams.api.jobs import table as jobs
from streams.api.rows.cursor import Cursor
from streams.api.timelines.job_spans import Member, job_spans
from streams.api.timelines.span import Span
from streams.serde.codec import JOB
from streams.serde.records import Job

_MOST_JOBS = 2_000
"""A page ends after so many jobs, also if few of their spans are asked for."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A job in the walk: the one below which it is, and itself, each by its time and id.

    The first spans, of the event itself, are at the least place.
    """

    root: tuple[int, str] = (-1, "")
    job: tuple[int, str] = (-1, "")


START = Place()


@dataclass(frozen=True, slots=True)
class Start:
    """Where a page begins: the spans of a place behind the first `skipped` ones."""

    place: Place = START
    skipped: int = 0

    def cursor(self) -> Cursor:
        """Return the cursor that names it."""
        return Cursor(self.skipped, orjson.dumps([*self.place.root, *self.place.job]).decode())


def start_at(cursor: Cursor | None) -> Start:
    """Return where a page begins.

    Raises:
        ValueError: the cursor is of another list.
    """
    if cursor is None:
        return Start()
    match orjson.loads(cursor.id):
        case [int(root_at), str(root_id), int(at), str(id_)] if cursor.at >= 0:
            return Start(Place((root_at, root_id), (at, id_)), cursor.at)
    raise ValueError("not a cursor of a timeline")


@dataclass(frozen=True, slots=True)
class Asked:
    """Which spans are asked for: from where on, how many, and whether only those that failed."""

    start: Start
    limit: int
    failed_only: bool = False


def page(
    connection: sqlite3.Connection, head: Sequence[Span], roots: Sequence[Member], asked: Asked
) -> tuple[list[Span], Cursor | None]:
    """Return some spans, and where the next page begins."""
    found, start = list[Span](), asked.start
    for number, (place, spans) in enumerate(_blocks(connection, head, roots, start.place)):
        skipped = start.skipped if place == start.place else 0
        if number == _MOST_JOBS:
            return found, Start(place).cursor()
        for n, span in enumerate(spans[skipped:], skipped):
            if asked.failed_only and not span.failed:
                continue
            if len(found) == asked.limit:
                return found, Start(place, n).cursor()
            found.append(span)
    return found, None


def _blocks(
    connection: sqlite3.Connection, head: Sequence[Span], roots: Sequence[Member], start: Place
) -> Iterator[tuple[Place, Sequence[Span]]]:
    """Yield the spans of the event and of each job, from a place on."""
    if start == START:
        yield START, head
    for root in sorted(roots, key=lambda each: _key(each.job)):
        own = _key(root.job)
        if own < start.root:
            continue
        if Place(own) >= start:
            yield Place(own), job_spans(connection, root)
        first = start.job if start.root == own else (-1, "")
        for job in _below(connection, root.job, first):
            member = Member(job, "child", None if job.parent is None else job.parent.job_id)
            yield Place(own, _key(job)), job_spans(connection, member)


def _key(job: Job) -> tuple[int, str]:
    return job.created_at, job.job_id


def _below(connection: sqlite3.Connection, root: Job, first: tuple[int, str]) -> Iterator[Job]:
    """Yield the jobs below one, from a place on, in the order in which they were made.

    Other jobs of its workflow may not be below it, because a submission may name any workflow.
    """
    if root.workflow_id is None:
        return
    known = {root.job_id: True}
    rows = connection.execute(
        "SELECT record FROM jobs WHERE workflow_id = ? AND tenant_id = ?"
        " AND (created_at, job_id) >= (?, ?) ORDER BY created_at, job_id",
        (root.workflow_id, root.tenant_id, *first),
    )
    for (record,) in rows:
        job = JOB.decode(record)
        if job.job_id != root.job_id and _is_below(connection, job, known):
            yield job


def _is_below(connection: sqlite3.Connection, job: Job, known: dict[str, bool]) -> bool:
    """Whether a job is below the root; `known` has the answer for some jobs, and gets more."""
    passed, found = list[str](), False
    at: Job | None = job
    while at is not None:
        if at.job_id in known:
            found = known[at.job_id]
            break
        passed.append(at.job_id)
        if at.parent is None or len(passed) > job.depth + 1:
            break
        above = at.parent.job_id
        if above in known:
            found = known[above]
            break
        at = jobs.job(connection, above)
    known |= dict.fromkeys(passed, found)
    return found
