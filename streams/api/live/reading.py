"""Reads what a reader has not seen, from one snapshot of the read model.

A reader keeps no frames: only its position, and a few numbers for each job that it watches. Frames
of one topic come in the order of their offsets, so that the position behind each frame is right.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from math import inf

from streams.api.live.changes import BESIDE, beside
from streams.api.live.frames import Frame
from streams.api.live.interests import Interest, Interests, of_job, together
from streams.api.live.output import Output
from streams.api.live.page import OF_JOB, WORKFLOW, Change, Heard, Page, Unsettled
from streams.api.live.position import JOBS, Position
from streams.api.live.statuses import JobRow, Statuses, job_row
from streams.api.live.subject import Subject, members
from streams.api.live.table import Source
from streams.serde.ids import partition_for
from streams.serde.job_states import MOVABLE
from streams.topology.model import Topology


class Reading:
    """The reading side of one reader; one thread at a time uses it."""

    def __init__(self, about: Subject, position: Position, topology: Topology) -> None:
        self.position = position
        self.interests: Interests = {}
        self.unheard: set[Change] = set()
        """Changes that may have come before the reader was woken for them, as of the last page."""
        self._about = about
        self._partitions = topology.partitions
        self._statuses = Statuses(about, position, topology)
        self._output = Output(position)
        self._members: tuple[str, ...] = ()
        self._sources: dict[str, Source] = {}
        self._waiting: set[str] = set()
        self._of_jobs: dict[str, tuple[Interest, ...]] = {}
        self._heard: Heard | None = None
        self._postponed: set[Change] = set()

    @property
    def is_over(self) -> bool:
        """Whether the reader was told all ends."""
        return len(self.position.ended) >= self._about.parts

    @property
    def is_of_several(self) -> bool:
        """Whether records of several jobs may lie in one partition of a topic."""
        return self._about.kind == "workflow" or self._about.parts > 1

    @property
    def home(self) -> int | None:
        """The partition of a workflow, whose jobs are found as it goes on; None for named jobs."""
        if self._about.kind == "jobs":
            return None
        return partition_for(self._about.tenant_id, self._partitions)

    @property
    def everything(self) -> set[Change]:
        """All changes that may concern the reader."""
        watched = self._members or self._about.job_ids
        return {WORKFLOW, *((job_id, table) for job_id in watched for table in OF_JOB)}

    @property
    def waiting(self) -> set[Change]:
        """The few jobs whose reason to wait is looked at again, because no record says it."""
        return {(job_id, "held") for job_id in self._waiting}

    def settle(self, found: Unsettled) -> None:
        """Note that what was on the topics when these ends were found is in the read model now."""
        self._statuses.settled |= found

    def page(
        self,
        connection: sqlite3.Connection,
        changed: Collection[Change],
        heard: Heard | None = None,
    ) -> Page:
        """Return what the reader has not seen of these changes.

        The snapshot may be newer than the changes. Of several jobs, a record that was not `heard`
        of waits for its own change: with it, the position would pass an earlier one of another job.
        """
        page, self._heard = Page(), heard
        wanted = self._wanted(connection, changed)
        rows = self._rows(connection, wanted)
        around = [job_id for job_id, tables in wanted.items() if "held" in tables]
        told = self._told(wanted, rows)
        said = self._output.of_jobs(connection, self._speaking(wanted), self._limit, page)
        waits = self._postpones(wanted, page)
        others = [] if waits else self._beside(connection, wanted, rows, page)
        early, late = self._statuses.of_jobs(connection, told, around, page)
        page.frames = [*early, *said, *others, *late]
        if self._about.kind == "workflow":
            page.frames += self._statuses.of_workflow(connection, self._members, page, self._limit)
        self._follow(connection, rows)
        self._forget(page)
        return page

    def _limit(self, partition: int, topic: int) -> float:
        """The first offset of which the reader may not have heard."""
        return inf if self._heard is None else self._heard.get((partition, topic), inf)

    def _follow(self, connection: sqlite3.Connection, rows: Mapping[str, JobRow]) -> None:
        """Renew the interests, where a job that is watched has other ones now."""
        found = {
            job_id: of_job(connection, job_id, rows.get(job_id))
            for job_id in self._members
            if job_id in rows or job_id not in self._of_jobs
        }
        kept = {job_id: self._of_jobs[job_id] for job_id in self._members if job_id not in found}
        now = {**kept, **found}
        before = self._of_jobs
        gained = (id_ for id_, each in found.items() if set(each) - set(before.get(id_, ())))
        self.unheard = {(id_, table) for id_ in gained for table in OF_JOB}
        if not self.interests:
            self.unheard.add(WORKFLOW)
        if now != before or not self.interests:
            self._of_jobs = now
            whole = self._about.kind == "workflow"
            own: Interest = ("workflow", self._about.tenant_id, self._about.workflow_id)
            self.interests = together({**now, "": (own,)} if whole else now)

    def _forget(self, page: Page) -> None:
        """Forget the jobs that are watched no more: a workflow may have any number of them."""
        if len(self._sources) > len(self._members):
            kept = {*self._members, *(job_id for job_id, _ in page.again)}
            for job_id in self._sources.keys() - kept:
                del self._sources[job_id]
            self._statuses.forget_others(kept)
            self._output.forget_others(kept)

    def _wanted(
        self, connection: sqlite3.Connection, changed: Collection[Change]
    ) -> dict[str, set[str]]:
        """Return the tables that changed, by job; a job that is new here has changed wholly."""
        wanted: dict[str, set[str]] = {}
        for job_id, table in changed:
            if job_id:
                wanted.setdefault(job_id, set()).add(table)
        if WORKFLOW in changed or not self._members:
            found = members(connection, self._about)
            for job_id in set(found) - set(self._members):
                wanted[job_id] = set(OF_JOB)
            self._members = found
        return wanted

    def _rows(
        self, connection: sqlite3.Connection, wanted: Mapping[str, set[str]]
    ) -> dict[str, JobRow]:
        """Return the jobs of which more than what they said has changed."""
        found = dict[str, JobRow]()
        for job_id, tables in wanted.items():
            if tables != {"live"} or job_id not in self._sources:
                row = job_row(connection, job_id)
                if row is not None:
                    found[job_id] = row
                    self._note(job_id, row)
        return found

    def _note(self, job_id: str, row: JobRow) -> None:
        self._sources[job_id] = Source(job_id, row.job.tenant_id, row.partition)
        waits = self._about.kind == "jobs" and row.job.status in MOVABLE
        (self._waiting.add if waits else self._waiting.discard)(job_id)

    def _told(
        self, wanted: Mapping[str, set[str]], rows: Mapping[str, JobRow]
    ) -> dict[str, JobRow | None]:
        """The jobs whose status may have changed; None for one that was purged."""
        found = dict[str, JobRow | None]()
        for job_id, tables in wanted.items():
            row = rows.get(job_id)
            if tables & {"jobs", "held"} and not (row and self._is_unheard(row)):
                found[job_id] = row
        return found

    def _is_unheard(self, row: JobRow) -> bool:
        return row.off >= self._limit(row.partition, JOBS)

    def _speaking(self, wanted: Mapping[str, set[str]]) -> list[Source]:
        """The jobs that said something."""
        speaking = (job_id for job_id, tables in wanted.items() if "live" in tables)
        return [self._sources[job_id] for job_id in speaking if job_id in self._sources]

    def _postpones(self, wanted: Mapping[str, set[str]], page: Page) -> bool:
        """Whether there is more text to come, which comes before the values of steps and the like.

        What was postponed so is looked at in the page behind the last text.
        """
        if page.again:
            changed = ((id_, tables & set(BESIDE)) for id_, tables in wanted.items())
            self._postponed |= {(id_, table) for id_, tables in changed for table in tables}
            return True
        page.again |= self._postponed
        self._postponed = set()
        return False

    def _beside(
        self,
        connection: sqlite3.Connection,
        wanted: Mapping[str, set[str]],
        rows: Mapping[str, JobRow],
        page: Page,
    ) -> list[Frame]:
        """Return what changed in the other tables, of each in its order."""
        found = list[Frame]()
        for table in BESIDE:
            changed = {job_id: row for job_id, row in rows.items() if table in wanted[job_id]}
            found += beside(connection, table, changed, self.position, self._limit, page)
        return found
