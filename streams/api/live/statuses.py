"""How jobs and a workflow stand, and their ends: an end comes behind everything else.

A worker makes durable what a run said before it reports the run's end. So once an end is known,
all tokens are on their topic. They are in the read model once it has read that topic's end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from streams.api.jobs.table import whole_job
from streams.api.live.frames import Frame, Place
from streams.api.live.page import PAGE_BYTES, Limit, Page
from streams.api.live.position import JOBS, WORKFLOWS, Position
from streams.api.live.subject import Subject
from streams.api.rows.json_values import Json, json_bytes
from streams.api.workflows.table import summary_json
from streams.serde import job_states
from streams.serde.codec import JOB, WORKFLOW
from streams.serde.records import Job
from streams.topology.model import Topology

PURGED = "purged"
"""The status in the end of a job that is not kept any more."""
_PAGE_STATUSES = 100
_OF_END = ("job_id", "status", "result", "last_error", "end_reason", "replayed_as", "updated_at")


class JobRow(NamedTuple):
    """A job with the place of its newest record."""

    partition: int
    off: int
    job: Job


def job_row(connection: sqlite3.Connection, job_id: str) -> JobRow | None:
    """Return a job with its place."""
    row = connection.execute(
        "SELECT part, off, record FROM jobs WHERE job_id = ?", (job_id,)
    ).fetchone()
    return None if row is None else JobRow(row[0], row[1], JOB.decode(row[2]))


class Statuses:
    """The frames `status` and `end` of one reader."""

    def __init__(self, about: Subject, position: Position, topology: Topology) -> None:
        self.settled: dict[tuple[int, int], int] = {}
        self._about = about
        self._position = position
        self._topology = topology
        self._numbers = {job_id: number for number, job_id in enumerate(about.job_ids)}
        self._shown: dict[str, bytes] = {}

    def of_jobs(
        self,
        connection: sqlite3.Connection,
        jobs: Mapping[str, JobRow | None],
        around: Collection[str],
        page: Page,
    ) -> tuple[list[Frame], list[Frame]]:
        """Return the frames that come before what else the jobs do, and those behind it.

        Around some of the jobs something changed that has no offset here, such as why they wait.

        In each partition they are in the order of their offsets. Where a job has ended, and that is
        not settled or what it did fills more than a page, it and the later ones of its partition
        wait for another page.
        """
        early, late, stopped = list[Frame](), list[Frame](), set[int]()
        is_full, size = bool(page.again), 0
        rows = {job_id: row for job_id, row in jobs.items() if row is not None}
        for job_id, row in sorted(rows.items(), key=lambda each: each[1][:2]):
            self._note_new_life(job_id, row)
            if self._waits(job_id, row):
                place = (row.partition, JOBS)
                page.unsettled[place] = max(row.off, page.unsettled.get(place, -1))
                stopped.add(row.partition)
            if is_full and row.job.status in job_states.TERMINAL:
                stopped.add(row.partition)
            if len(early) + len(late) >= _PAGE_STATUSES or size > PAGE_BYTES:
                stopped.add(row.partition)
            if row.partition in stopped:
                page.again.add((job_id, "jobs"))
                continue
            behind = bool(late) or row.job.status in job_states.TERMINAL
            frames, more = self._frames(connection, job_id, row, look=job_id in around)
            size += more
            (late if behind else early).extend(frames)
        purged = [self._numbers[i] for i, row in jobs.items() if row is None and i in self._numbers]
        late += [self._purged(n) for n in purged if n not in self._position.ended]
        return early, late

    def of_workflow(
        self,
        connection: sqlite3.Connection,
        members: Sequence[str],
        page: Page,
        limit: Limit,
    ) -> list[Frame]:
        """Return how the workflow stands, and its end, behind all frames of its jobs.

        A record from the limit on waits for its own change.
        """
        row = connection.execute(
            "SELECT part, off, record FROM workflows WHERE tenant_id = ? AND id = ?",
            (self._about.tenant_id, self._about.workflow_id),
        ).fetchone()
        if row is None:
            return self._of_one_job(connection, members, page, limit)
        partition, off, workflow = row[0], row[1], WORKFLOW.decode(row[2])
        if off >= limit(partition, WORKFLOWS):
            return []
        seen = off < self._position.of(partition, WORKFLOWS)
        shown, has_ended = summary_json(workflow), workflow.status != job_states.RUNNING
        if not seen:
            self._position.ended.clear()
        if has_ended and not (seen and self._position.ended):
            if off > self.settled.get((partition, WORKFLOWS), -1):
                page.unsettled[partition, WORKFLOWS] = off
            if page.unsettled or page.again:
                page.again.add(("", "workflows"))
                return []
        place = Place(partition, WORKFLOWS, off)
        status = Frame("status", shown, place, None if has_ended else 0)
        end = Frame("end", shown, None, 0)
        ends = has_ended and not (seen and self._position.ended)
        return [*([] if seen else [status]), *([end] if ends else [])]

    def _of_one_job(
        self,
        connection: sqlite3.Connection,
        members: Sequence[str],
        page: Page,
        limit: Limit,
    ) -> list[Frame]:
        """Return the end of a workflow that is one job without children."""
        rows = [row for row in (job_row(connection, id_) for id_ in members) if row is not None]
        if not all(map(self._is_seen, rows)):
            self._position.ended.clear()  # the job may live again
        if any(not self._may_end(row, page, limit) for row in rows):
            return []
        if page.again or page.unsettled or self._position.ended:
            return []
        if not rows:
            told = {"workflow_id": self._about.workflow_id, "status": PURGED}
            return [Frame("end", told, None, 0)]
        shown = whole_job(connection, rows[0].job, self._topology)
        told = {"workflow_id": self._about.workflow_id, **_end_json(shown)}
        return [Frame("end", told, None, 0)]

    def _may_end(self, row: JobRow, page: Page, limit: Limit) -> bool:
        """Whether a job has ended and that is settled; it is noted if it is not."""
        if row.job.status not in job_states.TERMINAL or row.off >= limit(row.partition, JOBS):
            return False
        place = row.partition, JOBS
        if row.off > self.settled.get(place, -1) and not self._position.ended:
            page.unsettled[place] = row.off
            page.again.add(("", "workflows"))
        return True

    def forget_others(self, kept: Collection[str]) -> None:
        """Forget what was shown of all but these jobs."""
        self._shown = {job_id: what for job_id, what in self._shown.items() if job_id in kept}

    def _note_new_life(self, job_id: str, row: JobRow) -> None:
        """An end that the reader was told is none if the job has a newer record."""
        number = self._numbers.get(job_id)
        if number is not None and not self._is_seen(row):
            self._position.ended.discard(number)

    def _waits(self, job_id: str, row: JobRow) -> bool:
        """Whether a job has ended, the reader is to be told that, and it is not settled."""
        if row.job.status not in job_states.TERMINAL or self._is_told(job_id, row):
            return False
        return row.off > self.settled.get((row.partition, JOBS), -1)

    def _is_told(self, job_id: str, row: JobRow) -> bool:
        number = self._numbers.get(job_id)
        return self._is_seen(row) and (number is None or number in self._position.ended)

    def _is_seen(self, row: JobRow) -> bool:
        return row.off < self._position.of(row.partition, JOBS)

    def _frames(
        self, connection: sqlite3.Connection, job_id: str, row: JobRow, *, look: bool
    ) -> tuple[list[Frame], int]:
        """Return the frames of a job whose end, if it has one, is settled, and their size."""
        seen, number = self._is_seen(row), self._numbers.get(job_id)
        has_ended = row.job.status in job_states.TERMINAL
        if self._is_told(job_id, row) if has_ended else seen and not look:
            return [], 0
        shown = whole_job(connection, row.job, self._topology)
        raw, frames = json_bytes(shown), list[Frame]()
        differs = self._differs(job_id, raw)
        if not seen:
            place = Place(row.partition, JOBS, row.off)
            frames.append(Frame("status", shown, place, number))
        elif differs and not has_ended:
            frames.append(Frame("status", shown, None, number))
        if has_ended and number is not None:
            frames.append(Frame("end", _end_json(shown), None, number))
        return frames, len(raw)

    def _differs(self, job_id: str, shown: bytes) -> bool:
        """Whether a job looks other than when it was last shown to this reader."""
        digest = blake2b(shown, digest_size=8).digest()
        before, self._shown[job_id] = self._shown.get(job_id), digest
        return before is not None and before != digest

    def _purged(self, number: int) -> Frame:
        told = {"job_id": self._about.job_ids[number], "status": PURGED}
        return Frame("end", told, None, number)


def _end_json(shown: Json) -> Json:
    """Return what an end says of a job: how it ended, and what it left."""
    return {name: shown[name] for name in _OF_END}
