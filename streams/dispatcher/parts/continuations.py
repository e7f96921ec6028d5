"""Continuations: a run ends its job's present life, and the job begins anew with another input.

The next incarnation has no steps, waits and effects yet, and gets no event a second time. The job
has not ended, so whoever waits for it goes on waiting, and the jobs below it go on.
"""

from __future__ import annotations

from streams.dispatcher.carried_places import carry
from streams.dispatcher.job import continued
from streams.dispatcher.part import Part
from streams.dispatcher.routing import in_pool
from streams.dispatcher.step import Step
from streams.dispatcher.waiting import drop
from streams.runtime.part import handles
from streams.serde import run_ends
from streams.serde.records import Ended, Job


class Continuations(Part):
    """Begins jobs anew."""

    @handles(run_ends.CONTINUED)
    def continued(self, step: Step, job: Job, body: Ended) -> None:
        drop(step, job, job.waits)
        life = in_pool(continued(job, body.result or "null", step.now), self.topology)
        carry(step, job, life, frozenset(body.given))
        step.admit(life)
