"""What people and timers ask of a job: submit, replay, cancel, wake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from streams.dispatcher import jobs, metrics
from streams.dispatcher.answers import answer
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.roster import Roster
from streams.errors import PoisonRecord
from streams.serde.records import Cancel, Command, Job, Move, Replay, Reply, Submit, Wake
from streams.topology.model import Topology

_REPLAYABLE = ("failed", "dead", "needs_review")


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
        place = self._life.place(command.job_id, self._life.now)
        if place is None:
            metrics.TWINS.inc()
            return
        now = self._life.now
        self._admitted(jobs.from_submission(command, body, self._topology, place=place, now=now))

    def replay(self, command: Command, body: Replay, at: int) -> None:
        if self._store.get(command.job_id) is not None:
            metrics.TWINS.inc()
            return
        old = self._store.get(body.replay_of)
        if old is None or old.tenant_id != command.tenant_id:
            raise PoisonRecord("replay_of_unknown", f"no job {body.replay_of} to replay")
        if old.status not in _REPLAYABLE:
            raise PoisonRecord("not_replayable", f"job {old.job_id} is {old.status}")
        if old.status == "needs_review":
            why = f"replayed as {command.job_id}: {body.note}"
            old = self._life.end(old, "cancelled", error=why)
        job = jobs.from_replay(command, body, old, self._life.now)
        self._store.put(replace(old, replayed_as=command.job_id))
        if not body.fresh_scope:
            self._store.inherit_steps(job, old)
        self._admitted(job)

    def cancel(self, command: Command, body: Cancel, at: int) -> bool:
        """False where its job is not known yet."""
        job = self._store.get(command.job_id)
        if job is not None and job.tenant_id != command.tenant_id:
            raise PoisonRecord("cancel_of_unknown", f"no job {command.job_id} of this tenant")
        if job is None:
            return False
        if job.status == "running":
            asked = replace(job, cancel_requested=True, cancel_reason=body.reason)
            self._store.put(replace(asked, updated_at=self._life.now))
            self._tell_worker(job, body.reason)
        elif jobs.is_live(job):
            self._life.end(job, "cancelled", error=f"Cancelled: {body.reason}")
        return True

    def wake(self, command: Command, body: Wake) -> None:
        job = self._store.get(command.job_id)
        if job is None or not jobs.awaits(job, command.epoch, body):
            metrics.STALE.labels("Wake").inc()
            return
        self._life.requeue(job)

    def move(self, command: Command, body: Move) -> None:
        """To another pool, for as long as that is declared; a job that ended stays as it is."""
        job = self._store.get(command.job_id)
        if job is None or job.tenant_id != command.tenant_id:
            raise PoisonRecord("move_of_unknown", f"no job {command.job_id} of this tenant")
        if body.pool not in self._topology.pools:
            raise PoisonRecord(
                "pool_undeclared", f"{body.pool!r} is none of: {', '.join(self._topology.pools)}"
            )
        if not jobs.is_live(job):
            metrics.STALE.labels("Move").inc()
            return
        self._life.move(job, body.pool)

    def _tell_worker(self, job: Job, reason: str) -> None:
        worker = self._roster.worker(job.worker_id)
        if worker is not None:
            reply = Reply(worker.worker_id, job.job_id, job.epoch, "", "cancel", message=reason)
            answer(self._life.ctx, reply, worker.work_partition)
