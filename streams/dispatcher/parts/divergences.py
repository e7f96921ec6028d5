"""Divergences: a person decides about the finished steps for which a job's code did not ask."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streams.dispatcher import checkpoints, metrics
from streams.dispatcher.part import Part
from streams.dispatcher.review import go_on
from streams.dispatcher.step import Step
from streams.errors import PoisonRecord
from streams.runtime.part import handles
from streams.serde.job_states import NEEDS_REVIEW
from streams.serde.records import Command, Job, SettleSteps, StepResult

_NOT_PLACED = -1
"""The position of a step that no run has to ask for."""


class Divergences(Part):
    """Lets a job whose code diverged from its finished steps go on."""

    @handles(SettleSteps)
    def settle_steps(self, step: Step, command: Command, body: SettleSteps, at: int) -> None:
        """Keep and drop finished steps; then the job runs again, with the attempt given back.

        Raises:
            PoisonRecord: the job did not diverge, or has no such step; nothing was changed.
        """
        job = step.table.get(command.job_id)
        if job is None or job.tenant_id != command.tenant_id:
            raise PoisonRecord("no_such_job", f"no job {command.job_id} of this tenant")
        if job.run_id != body.run_id or job.status != NEEDS_REVIEW:
            metrics.TWINS.inc()  # decided already, and the job has gone on
            return
        if job.diverged is None:
            raise PoisonRecord("not_diverged", f"job {job.job_id} waits for another decision")
        kept, dropped = _found(step, job, body.keep), _found(step, job, body.drop)
        for result in kept:
            checkpoints.keep(step.checkpoints, job, replace(result, position=_NOT_PLACED))
        for result in dropped:
            checkpoints.drop(step.checkpoints, job, result)
        decided = replace(job, diverged=None)
        step.table.put(decided)
        go_on(step, decided, decided=True)


def _found(step: Step, job: Job, ids: Iterable[str]) -> list[StepResult]:
    results = [(id_, checkpoints.find(step.checkpoints, job, id_)) for id_ in ids]
    for id_, result in results:
        if result is None:
            raise PoisonRecord("no_such_step", f"job {job.job_id} has no finished step {id_!r}")
    return [result for _, result in results if result is not None]
