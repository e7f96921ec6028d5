"""Applies what people and timers ask of a job: submit, cancel, wake, move.

`replays` and `settling` apply the other requests of people.
"""

from __future__ import annotations

from collections.abc import Callable

from streams.dispatcher import jobs, metrics
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.worker_registry import WorkerRegistry
from streams.errors import PoisonRecord
from streams.serde.records import Cancel, Command, Job, Move, Submit, Wake
from streams.topology.model import Topology


class Requests:
    """Applies the requests of one step; `admitted` is called with each new job.

    `at` is the time of a command's record, in milliseconds.
    """

    def __init__(
        self,
        life: Lifecycle,
        registry: WorkerRegistry,
        topology: Topology,
        admitted: Callable[[Job], None],
    ) -> None:
        self._life = life
        self._store = life.store
        self._registry = registry
        self._topology = topology
        self._admitted = admitted

    def submit(self, command: Command, body: Submit, at: int) -> None:
        """Make a job, unless a job of the same id was already made for the submission.

        Raises:
            PoisonRecord: the id belongs to another tenant's job.
        """
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
        """End a job, or ask its worker to end it; False if the job is not known yet.

        Raises:
            PoisonRecord: the job belongs to another tenant.
        """
        job = self._store.get(command.job_id)
        if job is not None and job.tenant_id != command.tenant_id:
            raise PoisonRecord("cancel_of_unknown", f"no job {command.job_id} of this tenant")
        if job is None or (body.incarnation or 0) > job.incarnation:
            return False
        if not _is_meant(job, body, at):
            metrics.STALE.labels("Cancel").inc()
        elif jobs.is_live(job):
            self._life.stop(job, body.reason)
        return True

    def wake(self, command: Command, body: Wake) -> None:
        """Make a job ready whose timer fired; a timer that the job does not await is ignored."""
        job = self._store.get(command.job_id)
        if job is None or not jobs.awaits(job, command.epoch, body):
            metrics.STALE.labels("Wake").inc()
        else:
            self._life.requeue(job)

    def move(self, command: Command, body: Move) -> None:
        """Move a job to another pool, for as long as the topology declares that pool.

        Raises:
            PoisonRecord: the tenant has no such job, or the pool is not declared.
        """
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


def _is_meant(job: Job, body: Cancel, at: int) -> bool:
    """Whether a cancel means this incarnation; one that names none must not precede the job."""
    if body.incarnation is None:
        return job.event_time <= at
    return body.incarnation == job.incarnation
