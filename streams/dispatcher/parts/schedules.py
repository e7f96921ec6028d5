"""Schedules: when one of its times has come, its job is made in the same transaction.

Their times lie in one order in the store, so a punctuation reads what is due and one entry more.
No message is under way between a time and its job: a schedule that was changed, paused or deleted
has no former time left. The job's id follows from the schedule, its generation and the nominal
time, so a time that is taken twice makes one job.
"""

from __future__ import annotations

from dataclasses import replace

from streams.dispatcher import fired_times, schedule_rows
from streams.dispatcher.due import DueEntry
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.schedule import (
    changed,
    created,
    is_over,
    paused,
    planned,
    skipped,
    timetable,
    unread,
)
from streams.dispatcher.schedule_jobs import live_job, make, take
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.errors import PoisonRecord
from streams.runtime.part import handles
from streams.runtime.processor import REST_SECONDS, Context
from streams.schedules import time_zones
from streams.schedules.definition import ID, SKIP, check, most_missed
from streams.schedules.tag import NONE, tag_of
from streams.schedules.timetable import WrongSchedule
from streams.serde.job_states import CANCELLED
from streams.serde.records import (
    Command,
    DeleteSchedule,
    Job,
    Occurrence,
    PauseSchedule,
    ScheduleRow,
    SetSchedule,
)

_CLOSED = "its tenant is disabled"
_SOON_MS = round(REST_SECONDS * 1000)


class Schedules(Part):
    """Makes the jobs of one partition's schedules."""

    awaits_logs = True  # a schedule may have been paused before its time came

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._behind = b""
        self._is_soon = True
        self._follows_rules = False

    def restored(self, ctx: Context) -> None:
        self._behind, self._is_soon, self._follows_rules = b"", True, False

    @handles(SetSchedule)
    def set(self, step: Step, command: Command, body: SetSchedule, at: int) -> None:
        """Create a schedule or change it; `at` is the time of the command's record.

        Raises:
            PoisonRecord: it cannot be, is another than the command expects, or an application
                declares it.
        """
        self._check(command.tenant_id, body)
        known = schedule_rows.find(step, command.tenant_id, body.schedule_id)
        _require_expected(known, body.expected)
        if known is not None and known.app is not None:
            why = f"application {known.app} declares {body.schedule_id}: change it in its code"
            raise PoisonRecord("schedule_declared", why)
        name = command.tenant_id, body.schedule_id
        if known is None:
            at = fired_times.since(step, *name, at)
        row = known or created(*name, body.spec, None, body.by, at)
        row = changed(row, body.spec, body.by, at)
        if body.paused is not None:
            row = paused(row, body.paused, body.note, body.by, at)
        if row != known:
            self._put(step, row)

    @handles(PauseSchedule)
    def pause(self, step: Step, command: Command, body: PauseSchedule, at: int) -> None:
        """Stop a schedule, or have it go on with its times after `at`.

        Raises:
            PoisonRecord: there is no such schedule, or another than the command expects.
        """
        known = schedule_rows.find(step, command.tenant_id, body.schedule_id)
        _require_expected(known, body.expected)
        if known is None:
            raise PoisonRecord("schedule_unknown", f"no schedule {body.schedule_id} of this tenant")
        row = paused(known, body.paused, body.note, body.by, at)
        if row != known:
            self._put(step, row)

    @handles(DeleteSchedule)
    def delete(self, step: Step, command: Command, body: DeleteSchedule, at: int) -> None:
        """Remove a schedule; its jobs stay.

        Raises:
            PoisonRecord: it is another than the command expects.
        """
        known = schedule_rows.find(step, command.tenant_id, body.schedule_id)
        _require_expected(known, body.expected)
        if known is not None:
            fired_times.keep(step, known, at)
            schedule_rows.delete(step, known)

    def ended(self, step: Step, job: Job) -> None:
        """Have a time follow that waits for the end of this job, or of the replay in its place."""
        if job.schedule_id is None:
            return
        row = schedule_rows.find(step, job.tenant_id, job.schedule_id)
        if row is None or row.last_job_id != job.job_id:
            return
        if job.status == CANCELLED and job.replayed_as is not None:
            schedule_rows.put(step, replace(row, last_job_id=job.replayed_as))
        elif row.queued is not None:
            self._look_soon(step, row)

    def tick(self, step: Step) -> None:
        """Look at some of the schedules whose time has come."""
        self._follow_rules(step)
        step.on_undo(setattr, self, "_behind", self._behind)
        due, following = schedule_rows.to_look_at(step, self._behind, AT_ONCE)
        for entry in due:
            if step.looked[Schedules] >= AT_ONCE:
                following = entry.at
                break
            self._behind = entry.key
            self._look(step, entry)
        self._is_soon = following is not None and following <= step.now + _SOON_MS

    def rests(self) -> bool:
        """Whether no schedule fires soon."""
        return not self._is_soon

    def _check(self, tenant_id: str, body: SetSchedule) -> None:
        if not tenant_id or ID.fullmatch(body.schedule_id) is None:
            raise PoisonRecord("bad_id", f"{body.schedule_id!r} is no id of a schedule")
        if tenant_id in self.shared.closed.erased:
            raise PoisonRecord("tenant_erased", "the tenant was erased")
        try:
            check(body.spec)
        except WrongSchedule as error:
            raise PoisonRecord("schedule_wrong", str(error)) from None

    def _put(self, step: Step, row: ScheduleRow) -> ScheduleRow:
        row = planned(row, step.now, self.topology.finished_jobs_ms)
        schedule_rows.put(step, row)
        self._is_soon = True
        return row

    def _look_soon(self, step: Step, row: ScheduleRow) -> None:
        # Not at once: what this step has looked at must not be looked at again.
        schedule_rows.put(step, replace(row, look_at=step.now + 1))
        self._is_soon = True

    def _follow_rules(self, step: Step) -> None:
        """Give some schedules their times by the present rules of their zones."""
        if self._follows_rules:
            return
        step.on_undo(setattr, self, "_follows_rules", False)
        some = schedule_rows.of_other_rules(step, time_zones.version(), AT_ONCE)
        for row in some:
            now = self._put(step, row)
            if now.queued is not None:  # the job that it waits for may have ended just before
                self._look_soon(step, now)
        if not some:
            self._follows_rules = True

    def _look(self, step: Step, entry: DueEntry) -> None:
        """Do what is due of one schedule, and plan its next time."""
        step.looked[Schedules] += 1
        row = schedule_rows.find(step, entry.name[0], entry.name[1])
        if row is None or row.look_at != entry.at:
            schedule_rows.drop_entry(step, entry.key)
            return
        if row.tzdata not in ("", time_zones.version()):
            row = planned(row, step.now, self.topology.finished_jobs_ms)
        elif is_over(row):
            schedule_rows.delete(step, row)
            return
        if row.queued is not None and live_job(step, row) is None:
            row = self._release(step, replace(row, queued=None), row.queued)
        if row.due_at is not None and row.due_at <= step.now:
            row = self._fire(step, row)
        self._put(step, row)

    def _fire(self, step: Step, row: ScheduleRow) -> ScheduleRow:
        """Handle the times that have come: one of them, unless the schedule asks for more."""
        try:
            most = most_missed(row.spec.missed)
            came = timetable(row).latest(row.since, step.now, most, row.last)
        except WrongSchedule as error:
            return unread(row, step.now, error)
        if not came:
            return row
        step.looked[Schedules] += len(came) - 1
        row = replace(row, since=came[-1].at, last=came[-1].name)
        if row.tenant_id in self.shared.closed:
            return skipped(row, came[-1], _CLOSED)
        if row.spec.missed == SKIP and step.now - came[-1].at > row.spec.grace_ms:
            late = (step.now - came[-1].at) / 1000
            return skipped(row, came[-1], f"it was missed by {late:.1f} s")
        for each in came:
            row = take(step, row, each, self.topology)
        return row

    def _release(self, step: Step, row: ScheduleRow, time: Occurrence) -> ScheduleRow:
        """Make the job of a time that has waited."""
        if row.tenant_id in self.shared.closed:
            return skipped(row, time, _CLOSED)
        return make(step, row, time, self.topology)


def _require_expected(known: ScheduleRow | None, expected: str | None) -> None:
    if expected is not None and expected != (tag_of(known) or NONE):
        raise PoisonRecord("schedule_changed", "the schedule was changed since it was read")
