"""Calls of tools and models: steps claim theirs, and jobs without room for a call wait for it."""

from __future__ import annotations

from typing import ClassVar

import orjson

from streams.dispatcher import circuits, metrics
from streams.dispatcher.call_places import await_room, enter, leave
from streams.dispatcher.living_lease import is_own, living, why_not
from streams.dispatcher.names import MOST_CHARS
from streams.dispatcher.part import Part
from streams.dispatcher.step import Step
from streams.limits.paused import without_marks
from streams.runtime.part import handles
from streams.runtime.processor import Context
from streams.serde import run_ends
from streams.serde.records import ClaimStep, Command, Ended, Job, StepFailed


class Calls(Part):
    """Has jobs wait for places for their calls."""

    keys: ClassVar = circuits.KEYS

    def restored(self, ctx: Context) -> None:
        circuits.restore(ctx, self.shared.queue.limited.caps.circuits)

    def tick(self, step: Step) -> None:
        """Show how many circuits are open."""
        open_ = self.shared.queue.limited.caps.circuits.open
        metrics.CIRCUITS.labels(str(self.shared.partition)).set(open_)

    def closed(self) -> None:
        """Drop the partition's gauge, since another process owns the partition now."""
        metrics.CIRCUITS.remove(str(self.shared.partition))

    def begins(self, step: Step, job: Job) -> Job:
        """Let a job ask for its call anew if what it waited for is over by now.

        A circuit may be closed by now, and a pause may begin again before the call.
        """
        return without_marks(circuits.without_closed(step, job)) if job.limit_keys else job

    @handles(ClaimStep)
    def claim(self, step: Step, command: Command, body: ClaimStep, at: int) -> None:
        """Let a step call its model, unless a limit has no room."""
        job = living(step, command, body.run_id)
        kind, message = why_not(step, job) or ("granted", "")
        if job is not None and kind == "granted":
            full = enter(step, job, body.claim_id, model=body.model)
            kind, message = ("granted", "") if full is None else ("full", full)
        step.answer(command, body.claim_id, kind, message)

    @handles(StepFailed)
    def failed(self, step: Step, command: Command, body: StepFailed, at: int) -> None:
        """End the call of a model by a step that has no value."""
        job = step.table.get(command.job_id)
        if job is not None and is_own(step, job.worker_id):
            leave(step, job, body.claim_id)

    @handles(run_ends.FULL)
    def full(self, step: Step, job: Job, body: Ended) -> None:
        """Have a job start again once there is room for the call that its run asked for."""
        await_room(step, job, *_asked(body))


def _asked(body: Ended) -> tuple[str | None, str | None]:
    """The tool and the model of the call; neither if the run's end does not name them."""
    try:
        tool, model = orjson.loads(body.result or "null")
    except (ValueError, TypeError):
        return None, None
    return _name(tool), _name(model)


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= MOST_CHARS else None
