"""Runs: a worker finishes a step of its run, and ends the run.

A command for a lease that is over changes nothing and is counted.
"""

from __future__ import annotations

from streams.dispatcher import history
from streams.dispatcher.failures import fail
from streams.dispatcher.part import Part
from streams.dispatcher.review import go_on
from streams.dispatcher.runs import living
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import bury, end, give_back
from streams.dispatcher.workers import credits
from streams.errors import PoisonRecord
from streams.runtime.part import handles
from streams.serde import keys, run_ends
from streams.serde.job_states import CANCELLED, FAILED, NEEDS_REVIEW, SUCCEEDED
from streams.serde.records import Checkpoint, Command, Ended, Job


class Runs(Part):
    """Applies what workers report about the runs of their leases."""

    @handles(Checkpoint)
    def checkpoint(self, step: Step, command: Command, body: Checkpoint, at: int) -> None:
        job = living(step, command, body.run_id)
        if job is not None:
            key = keys.checkpoint_key(job.job_id, job.incarnation, body.name)
            step.checkpoints.put(key, body.value.encode())

    @handles(Ended)
    def run_ended(self, step: Step, command: Command, body: Ended, at: int) -> None:
        credits.check(body)
        self.shared.workers.announced(body.worker_id, body.free, body.received)
        job = living(step, command, body.run_id, last_word=True)
        if job is not None:
            _end(step, job, body)


def _end(step: Step, job: Job, body: Ended) -> None:
    match body.status:
        case run_ends.SUCCEEDED:
            end(step, job, SUCCEEDED, result=body.result)
        case run_ends.REVIEW:
            # If the earlier call's outcome came meanwhile, no person has to decide.
            job = history.failed(job, body.error, step.now, body.traceback)
            go_on(step, end(step, job, NEEDS_REVIEW, error=body.error))
        case run_ends.FAILED:
            job = history.failed(job, body.error, step.now, body.traceback)
            bury(step, job, FAILED, body.error)
        case run_ends.CANCELLED:
            end(step, job, CANCELLED, error=body.error)
        case run_ends.RELEASED | run_ends.RETRY if job.cancel_requested:
            end(step, job, CANCELLED, error=body.error)
        case run_ends.RELEASED:
            give_back(step, job, body.error)
        case run_ends.RETRY:
            fail(step, job, body.error, body.retry_after_seconds, body.traceback)
        case unknown:
            raise PoisonRecord("not_supported", f"a run cannot end as {unknown!r}")
