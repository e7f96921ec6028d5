"""Runs: a worker finishes a step of its run, and ends the run.

A command for a lease that is over changes nothing and is counted. Another part may handle an end of
its own: this part checks the lease first.
"""

from __future__ import annotations

from dataclasses import replace

from streams.dispatcher import history
from streams.dispatcher.call_places import leave
from streams.dispatcher.checkpoints import keep, refuse_forged
from streams.dispatcher.failures import fail
from streams.dispatcher.living_lease import living
from streams.dispatcher.part import Part
from streams.dispatcher.review import go_on
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import bury, end, give_back
from streams.runtime.part import handles
from streams.serde import run_ends
from streams.serde.job_states import CANCELLED, FAILED, NEEDS_REVIEW, SUCCEEDED
from streams.serde.records import Checkpoint, Command, Ended, Job


class Runs(Part):
    """Applies what workers report about the runs of their leases."""

    @handles(Checkpoint)
    def checkpoint(self, step: Step, command: Command, body: Checkpoint, at: int) -> None:
        refuse_forged(body.step)
        job = living(step, command, body.run_id)
        if job is not None:
            keep(step.checkpoints, job, body.step)
            leave(step, job, body.claim_id)

    @handles(Ended)
    def run_ended(self, step: Step, command: Command, body: Ended, at: int) -> None:
        job = living(step, command, body.run_id, last_word=True)
        if job is not None:
            step.end_run(job, body)

    @handles(run_ends.SUCCEEDED)
    def succeeded(self, step: Step, job: Job, body: Ended) -> None:
        end(step, job, SUCCEEDED, result=body.result)

    @handles(run_ends.REVIEW)
    def asks_for_review(self, step: Step, job: Job, body: Ended) -> None:
        """Ask a person, unless the earlier call's outcome came meanwhile."""
        job = history.failed(job, body.error, step.now, body.traceback)
        job = replace(job, diverged=body.diverged)
        go_on(step, end(step, job, NEEDS_REVIEW, error=body.error))

    @handles(run_ends.FAILED)
    def failed(self, step: Step, job: Job, body: Ended) -> None:
        job = history.failed(job, body.error, step.now, body.traceback)
        bury(step, job, FAILED, body.error)

    @handles(run_ends.CANCELLED)
    def cancelled(self, step: Step, job: Job, body: Ended) -> None:
        """End the job; what a run that succeeded too late returned is kept as evidence."""
        result = body.result if body.status == run_ends.SUCCEEDED else None
        end(step, job, CANCELLED, result=result, error=body.error)

    @handles(run_ends.RELEASED)
    def released(self, step: Step, job: Job, body: Ended) -> None:
        give_back(step, job, body.error)

    @handles(run_ends.RETRY)
    def failed_for_now(self, step: Step, job: Job, body: Ended) -> None:
        fail(step, job, body.error, body.retry_after_seconds, body.traceback)
