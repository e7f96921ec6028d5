"""What must hold of trees of jobs after each commit, as topics and the store `parts` show it.

A judge of stories feeds it with the records of `jobs` and `workflows` in their order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from streams.serde.job_states import CANCELLED, LEASED, SUCCEEDED, TERMINAL, WAITING
from streams.serde.records import Job, Wait
from support.workflow_counts import WorkflowCounts

_NOT_NEEDED = "it is not needed any more"
_TAKEN_ALONG = ", which asked for it, is "
Gather = tuple[str, int, str]
"""The parent of gathered jobs, its incarnation, and the id of the gather."""


class TreeRules:
    """The newest row of each job, and what is wrong with it.

    `error` makes what is raised of the name of an invariant and a detail. `numbers` is the value
    that the store has for a gather. `is_late` says whether a job may not stay as it is for so many
    looks and milliseconds: what ends or wakes it may go on with time.
    """

    def __init__(
        self,
        error: Callable[[str, str], Exception],
        numbers: Callable[[Job, str], bytes | None],
        is_late: Callable[[int, int], bool],
    ) -> None:
        self._error, self._numbers, self._is_late = error, numbers, is_late
        self.rows: dict[str, Job] = {}
        self.workflows = WorkflowCounts(error)
        self._repeats: dict[str, str] = {}
        """By a replay that was made to work in the scope of a job: that job."""
        self._before: dict[str, Job | None] = {}
        """What has changed since the last look, as it was then."""
        self._overdue: dict[tuple[str, str], tuple[int, int]] = {}
        """By invariant and job: the look and the time since which it ought to be otherwise."""
        self._unneeded: list[Job] = []
        """Jobs that were stopped since the last look because nobody needs them."""
        self._taken_along: list[Job] = []
        """Jobs that were stopped since then because one above was."""
        self._looks = 0

    def changed(self, job_id: str, job: Job | None) -> None:
        """A record of `jobs`."""
        was = self.rows.get(job_id)
        self._before.setdefault(job_id, was)
        self.workflows.changed(was, job)
        if job is None:
            self.rows.pop(job_id, None)
            return
        old = self.rows.get(job.replay_of or "")
        if was is None and old is not None and old.scope == job.scope:
            self._repeats[job_id] = old.job_id
        if was is not None:
            self._is_one_job(job, was)
            if job.cancel_reason == _NOT_NEEDED != was.cancel_reason:
                self._unneeded.append(job)
            elif job.cancel_reason != was.cancel_reason and _TAKEN_ALONG in (
                job.cancel_reason or ""
            ):
                self._taken_along.append(job)
        if _begins(job, was):
            self._may_begin(job)
        self.rows[job_id] = job

    def look(self, now: int) -> None:
        """All that was committed has been read; `now` is in milliseconds."""
        self._looks += 1
        self.workflows.look()
        if self._before:
            self._before.clear()
            self._lists_are_counted()
            self._none_is_cut_off()
            self._none_is_taken_along()
            since = self._looks, now
            due = (*self._left_alive(), *self._not_woken())
            self._overdue = {place: self._overdue.get(place, since) for place in due}
        for (name, job_id), (look, at) in self._overdue.items():
            if self._is_late(self._looks - look, now - at):
                raise self._error(name, f"{job_id} is {self.rows[job_id]}")

    def excuse(self, now: int) -> None:
        """The stage stands still: what is overdue has all its time again."""
        self._overdue = dict.fromkeys(self._overdue, (self._looks, now))

    def all_have_ended(self) -> None:
        """Raise unless every job has ended."""
        live = {id_: job.status for id_, job in self.rows.items() if job.status not in TERMINAL}
        if live:
            raise self._error("never_ends", f"{live}")

    def above(self, job: Job, rows: Callable[[str], Job | None]) -> Iterator[Job]:
        """The jobs above one that it ends with, the nearest first."""
        while job.parent is not None and not job.parent.abandoned:
            parent = rows(job.parent.job_id)
            if parent is None or not parent.is_same_life(job.parent.incarnation):
                return
            job = self.heir(parent, rows)
            yield job

    def heir(self, job: Job, rows: Callable[[str], Job | None]) -> Job:
        """The job that has what this one asked for: its replay, if it was cancelled for that."""
        while job.status == CANCELLED and job.replayed_as:
            replay = rows(job.replayed_as)
            if replay is None or self._repeats.get(replay.job_id) != job.job_id:
                break
            job = replay
        return job

    def inherited(self, job: Job) -> Iterator[Job]:
        """The jobs in review whose place a job took, one after the other."""
        while (old := self.rows.get(self._repeats.get(job.job_id, ""))) is not None:
            if old.status != CANCELLED or old.replayed_as != job.job_id:
                return
            yield old
            job = old

    def _is_one_job(self, job: Job, was: Job) -> None:
        """A call makes one job, which begins again only after an end without success."""
        if (job.incarnation, job.epoch) < (was.incarnation, was.epoch):
            raise self._error("made_twice", f"{job.job_id} begins at {job.epoch} after {was.epoch}")
        anew = job.incarnation > was.incarnation and job.continuations <= was.continuations
        if anew and (was.status not in TERMINAL or _is_child_that_succeeded(was)):
            raise self._error("made_twice", f"{job.job_id} was {was.status}")

    def _may_begin(self, job: Job) -> None:
        """No job above was to end at the last look, and still is."""
        for each in self.above(job, self._at_the_last_look):
            now = self.rows.get(each.job_id)
            if now is not None and is_doom(each) and is_doom(self.heir(now, self.rows.get)):
                raise self._error("begun_below", f"{job.job_id} begins below {each.job_id}")

    def _at_the_last_look(self, job_id: str) -> Job | None:
        return self._before[job_id] if job_id in self._before else self.rows.get(job_id)

    def _left_alive(self) -> Iterator[tuple[str, str]]:
        """Jobs that no worker holds, below one that has ended without success."""
        for job_id, job in self.rows.items():
            rests = job.status not in TERMINAL and job.status not in LEASED
            if rests and any(has_failed(each) for each in self.above(job, self.rows.get)):
                yield "left_alive", job_id

    def _not_woken(self) -> Iterator[tuple[str, str]]:
        """Jobs that wait for what is over."""
        for job_id, job in self.rows.items():
            if job.status == WAITING and any(self._is_over(job, wait) for wait in job.waits):
                yield "not_woken", job_id

    def _is_over(self, job: Job, wait: Wait) -> bool:
        if wait.group < 0 or wait.needs_all:
            return False
        if wait.kind == "gather":
            numbers = _read(self._numbers(job, wait.id))
            return numbers is None or numbers["is_over"]
        awaited = self.rows.get(wait.job_id or "")
        return awaited is not None and awaited.status in TERMINAL

    def _none_is_cut_off(self) -> None:
        """Only the end of a gather ends a job below one that lives and is not being cancelled."""
        for job in self._unneeded:
            parent = next(self.above(job, self.rows.get), None)
            if parent is None or parent.status in TERMINAL or is_doom(parent):
                continue
            if not self._is_of_ended_gather(job, parent):
                raise self._error("cut_off", f"{job.job_id} below {parent.job_id}")
        self._unneeded.clear()

    def _none_is_taken_along(self) -> None:
        """A job that ends with one above is below such a one, or below one that began anew."""
        for job in self._taken_along:
            above = list(self.above(job, self.rows.get))
            is_whole = all(each.parent is None or each.parent.abandoned for each in above[-1:])
            if not above or not is_whole or any(map(is_doom, above)):
                continue
            if not any(map(self._is_of_ended_gather, (job, *above), above)):
                raise self._error("cut_off", f"{job.job_id} below {above[0].job_id}")
        self._taken_along.clear()

    def _is_of_ended_gather(self, job: Job, parent: Job) -> bool:
        if job.parent is None or not job.parent.gather:
            return False
        numbers = _read(self._numbers(parent, job.parent.gather))
        is_of_now = job.parent.incarnation == parent.incarnation
        return not is_of_now or numbers is None or numbers["is_over"]

    def _lists_are_counted(self) -> None:
        """The numbers of each gather are those of its jobs, of which none was before the seal."""
        made: Counter[Gather] = Counter()
        ended: Counter[Gather] = Counter()
        for job in self.rows.values():
            if job.parent is not None and job.parent.gather:
                place = job.parent.job_id, job.parent.incarnation, job.parent.gather
                made[place] += 1
                ended[place] += job.status in TERMINAL
        for place, number in made.items():
            parent = self.rows.get(place[0])
            if parent is None or parent.status in TERMINAL or parent.incarnation != place[1]:
                continue
            self._is_counted(parent, place[2], number, ended[place])

    def _is_counted(self, parent: Job, id_: str, made: int, ended: int) -> None:
        found = _read(self._numbers(parent, id_))
        if found is None or not made <= found["begun"] <= found["listed"] <= found["count"]:
            raise self._error("unsealed", f"{made} jobs of {parent.job_id}: {found}")
        if not found["is_over"] and found["succeeded"] + found["failed"] != ended:
            raise self._error("uncounted", f"{ended} of {parent.job_id} ended: {found}")


def is_doom(job: Job) -> bool:
    """Whether nothing below a job may begin."""
    return job.cancel_requested or has_failed(job)


def has_failed(job: Job) -> bool:
    """Whether all below a job end; one that is being cancelled has not ended yet."""
    return job.status in TERMINAL and job.status != SUCCEEDED


def _ends_with_one_above(job: Job) -> bool:
    return job.cancel_reason is not None and _TAKEN_ALONG in job.cancel_reason


def _begins(job: Job, was: Job | None) -> bool:
    if was is None:
        return job.status not in TERMINAL
    return job.epoch > was.epoch or job.incarnation > was.incarnation


def _is_child_that_succeeded(job: Job) -> bool:
    return job.parent is not None and job.status == SUCCEEDED


_NUMBERS = ("count", "listed", "begun", "succeeded", "failed", "is_over")


def _read(value: bytes | None) -> dict[str, Any] | None:
    """The numbers of a gather, as the store keeps them."""
    if value is None:
        return None
    _, count, _, _, _, *rest = json.loads(value)
    return dict(zip(_NUMBERS, (count, *rest), strict=False))
