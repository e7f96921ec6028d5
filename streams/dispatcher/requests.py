"""What people and timers ask of a job: submit, cancel, wake. See `replays` and `settling`, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streams.dispatcher import jobs, metrics
from streams.dispatcher.answers import answer
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.roster import Roster
from streams.errors import PoisonRecord
from streams.serde.records import Cancel, Command, Job, Reply, Submit, Wake
from streams.topology.model import Topology


class Requests:
    """Applies the requests of one step; `admitted` takes each new job in.

    `at` is the time of a command's record, in milliseconds.
    """

    def __init__(
        self,
        life: Lifecycle,
        roster: Roster,
        topology: Topology,
        admitted: Callable[[Job], None],
    ) -> None:
        self._life = life
        self._store = life.store
        self._roster = roster
        self._topology = topology
        self._admitted = admitted

    def submit(self, command: Command, body: Submit, at: int) -> None:
        """A job, unless one of its id stands for it at the time of the record."""
        known = self._store.get(command.job_id)
        if known is not None and known.tenant_id != command.tenant_id:
            raise PoisonRecord("id_taken", f"{command.job_id} is a job of another tenant")
        place = self._life.place(command.job_id, at)
        if place is None:
            metrics.TWINS.inc()
            return
        job = jobs.from_submission(
            command, body, self._topology, place=place, at=at, now=self._life.now
        )
        self._admitted(job)

    def cancel(self, command: Command, body: Cancel, at: int) -> bool:
        """End a job, or ask its worker to; False where the job that is meant is not known yet."""
        job = self._store.get(command.job_id)
        if job is not None and job.tenant_id != command.tenant_id:
            raise PoisonRecord("cancel_of_unknown", f"no job {command.job_id} of this tenant")
        if job is None or (body.incarnation or 0) > job.incarnation:
            return False
        if not _is_meant(job, body, at):
            metrics.STALE.labels("Cancel").inc()
        elif job.status == "running":
            self._cancel_run(job, body.reason)
        elif jobs.is_live(job):
            self._life.end(replace(job, cancel_reason=body.reason), "cancelled")
        return True

    def wake(self, command: Command, body: Wake) -> None:
        """A timer fired; one that was set to another time, or doubled, wakes nobody."""
        job = self._store.get(command.job_id)
        if job is None or job.status != "scheduled" or not _is_its_timer(job, command, body):
            metrics.STALE.labels("Wake").inc()
        else:
            self._life.requeue(job)

    def _cancel_run(self, job: Job, reason: str) -> None:
        """The first reason stands; the worker is told each time, and by its heartbeats' answers."""
        if not job.cancel_requested:
            job = replace(
                job, cancel_requested=True, cancel_reason=reason, updated_at=self._life.now
            )
            self._store.put(job)
        self._roster.cancelled(job)
        self._tell_worker(job, job.cancel_reason or reason)

    def _tell_worker(self, job: Job, reason: str) -> None:
        worker = self._roster.worker(job.worker_id)
        if worker is not None:
            reply = Reply(worker.worker_id, job.job_id, job.epoch, "", "cancel", message=reason)
            answer(self._life.ctx, reply, worker.work_partition)


def _is_meant(job: Job, body: Cancel, at: int) -> bool:
    """By its incarnation, or, where the record names none, as the job that lived at its time."""
    if body.incarnation is None:
        return job.event_time <= at
    return body.incarnation == job.incarnation


def _is_its_timer(job: Job, command: Command, body: Wake) -> bool:
    if (command.epoch, body.attempts) != (job.incarnation, job.attempts):
        return False
    return body.due_at in (0, jobs.due_at(job))  # 0: written without its time
