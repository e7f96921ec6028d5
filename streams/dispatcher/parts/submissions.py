"""Submissions and cancels: people ask for a job and for its end, in either order.

A cancel that comes before its job waits for it, until the job can no longer be expected. The store
`parts` keeps it under `p` job_id command_id; `q` time job_id command_id says when it expires.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from streams.dispatcher import metrics
from streams.dispatcher.due import DueSpace
from streams.dispatcher.job import is_live
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.dispatcher.too_late import too_late
from streams.dispatcher.transitions import place, stop
from streams.errors import PoisonRecord
from streams.new_jobs import from_submission
from streams.runtime.part import handles
from streams.runtime.processor import Context
from streams.serde.codec import COMMAND
from streams.serde.keys import SEPARATOR, after, join, split
from streams.serde.records import Cancel, Command, Job, Submit

_PARKED, _EXPIRY = b"p", b"q"
_EXPIRES = DueSpace(_EXPIRY)


class Submissions(Part):
    """Makes submitted jobs, and cancels jobs; `at` is the time of a command's record.

    A parked cancel is applied with the time of its own record, not of the one that makes its job.
    """

    keys: ClassVar = {
        _PARKED: "cancels that wait for their job",
        _EXPIRY: "when these are forgotten",
    }

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._awaited: set[str] = set()  # jobs for which a cancel waits
        self._behind = b""

    def restored(self, ctx: Context) -> None:
        keys = (key for key, _ in ctx.store("parts").range(_PARKED, after(_PARKED)))
        self._awaited = {split(key[1:])[0] for key in keys}

    @handles(Submit)
    def submit(self, step: Step, command: Command, body: Submit, at: int) -> None:
        """Make a job, unless a job of the same id was already made for the submission.

        Raises:
            PoisonRecord: the id belongs to another tenant's job.
        """
        known = step.table.get(command.job_id)
        if known is not None and known.tenant_id != command.tenant_id:
            raise PoisonRecord("id_taken", f"{command.job_id} is a job of another tenant")
        found = place(step, command.job_id, at)
        if found is None:
            metrics.TWINS.inc()
            return
        who = command.job_id, command.tenant_id
        step.admit(from_submission(*who, body, self.topology, place=found, at=at, now=step.now))

    @handles(Cancel)
    def cancel(self, step: Step, command: Command, body: Cancel, at: int) -> None:
        """End a job, or ask its worker to end it; wait for a job that is not known yet.

        Raises:
            PoisonRecord: the job belongs to another tenant; or it has ended, and somebody waits
                for the answer.
        """
        job = step.table.get(command.job_id)
        if job is not None and job.tenant_id != command.tenant_id:
            raise PoisonRecord("cancel_of_unknown", f"no job {command.job_id} of this tenant")
        if job is None or (body.incarnation or 0) > job.incarnation:
            self._park(step, replace(command, at=at))
        elif is_live(job) and _is_meant(job, body, at):
            stop(step, job, body.reason)
        else:
            too_late(command)

    def admitted(self, step: Step, job: Job) -> None:
        """Apply the cancels that overtook their job."""
        if job.job_id not in self._awaited:
            return
        self._expect(step, job.job_id, waits=False)
        prefix = _PARKED + join(job.job_id) + SEPARATOR
        for key, value in list(step.store.range(prefix, after(prefix))):
            step.store.delete(key)
            command = replace(COMMAND.decode(value), call=None)  # its caller has the answer
            if command.tenant_id == job.tenant_id:
                step.apply(command, command.at)

    def tick(self, step: Step) -> None:
        """Forget some of the cancels whose job never came."""
        step.on_undo(setattr, self, "_behind", self._behind)
        for entry in _EXPIRES.due(step.store, step.now, AT_ONCE, self._behind):
            self._behind = entry.key
            step.store.delete(entry.key)
            step.store.delete(_PARKED + join(*entry.name))
            prefix = _PARKED + join(entry.name[0]) + SEPARATOR
            if next(step.store.range(prefix, after(prefix)), None) is None:
                self._expect(step, entry.name[0], waits=False)

    def _park(self, step: Step, command: Command) -> None:
        key = join(command.job_id, command.command_id)
        step.store.put(_PARKED + key, COMMAND.encode(command))
        due = step.now + self.topology.finished_jobs_ms
        step.store.put(_EXPIRES.key(due, command.job_id, command.command_id), b"")
        self._expect(step, command.job_id, waits=True)

    def _expect(self, step: Step, job_id: str, *, waits: bool) -> None:
        if waits != (job_id in self._awaited):
            step.on_undo(self._note, job_id, not waits)
            self._note(job_id, waits)

    def _note(self, job_id: str, waits: bool) -> None:
        (self._awaited.add if waits else self._awaited.discard)(job_id)


def _is_meant(job: Job, body: Cancel, at: int) -> bool:
    """Whether a cancel means this incarnation; one that names none must not precede the job."""
    if body.incarnation is None:
        return job.event_time <= at
    return job.is_same_life(body.incarnation)
