"""Routes: waiting jobs follow a changed topology, and operators move jobs between pools."""

from __future__ import annotations

from dataclasses import replace

from streams.dispatcher.job import is_live
from streams.dispatcher.live_index import Live
from streams.dispatcher.part import Part
from streams.dispatcher.step import Step
from streams.dispatcher.too_late import too_late
from streams.dispatcher.transitions import follow_topology
from streams.errors import PoisonRecord
from streams.runtime.part import handles
from streams.serde.job_states import MOVABLE
from streams.serde.records import Command, Job, Move


class Routes(Part):
    """Gives waiting jobs the type, priority and pool that the topology or an operator wants."""

    @handles(Move)
    def move(self, step: Step, command: Command, body: Move, at: int) -> None:
        """Move a job to another pool, for as long as the topology declares that pool.

        A running job moves when it waits again.

        Raises:
            PoisonRecord: the tenant has no such job, or the pool is not declared; or the job has
                ended, and somebody waits for the answer.
        """
        job = step.table.get(command.job_id)
        if job is None or job.tenant_id != command.tenant_id:
            raise PoisonRecord("move_of_unknown", f"no job {command.job_id} of this tenant")
        if body.pool not in self.topology.pools:
            raise PoisonRecord(
                "pool_undeclared", f"{body.pool!r} is none of: {', '.join(self.topology.pools)}"
            )
        if not is_live(job):
            too_late(command)
            return
        job = replace(job, asked_pool=body.pool, updated_at=step.now)
        step.table.put(job)
        if job.status in MOVABLE:
            follow_topology(step, job)

    def is_due(self, step: Step, live: Live) -> bool:
        return self.shared.unrouted and live.status in MOVABLE

    def mend(self, step: Step, job: Job) -> bool:
        return follow_topology(step, job)
