"""Children: a run asks for jobs of its own, and they end with the job that asked for them.

A job that ends without success takes those below it along, however deep; one that succeeds leaves
them alone. This is done in parts, and a job below one that has ended is not leased meanwhile, and
can ask for no more.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import ClassVar

from streams import user_json
from streams.dispatcher.checkpoints import drop, keep, result_of, steps_of
from streams.dispatcher.children import has_failed, is_still_ending, make
from streams.dispatcher.job import is_live
from streams.dispatcher.living_lease import living, why_not
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import stop
from streams.dispatcher.tree import (
    BELOW,
    Stop,
    below,
    cause_above,
    come_back,
    has_any_below,
    in_workflow,
    leave,
    spare_below,
    stop_below,
    stop_named,
)
from streams.dispatcher.work_list import WorkList
from streams.errors import PoisonRecord
from streams.runtime.part import handles
from streams.runtime.processor import Context
from streams.serde.job_states import SUCCEEDED
from streams.serde.keys import after, split
from streams.serde.records import Command, Enqueue, Job, ReplyKind
from streams.serde.step_ids import CHILD, is_note

_STOPS = b"K"


class Children(Part):
    """The jobs that one partition's jobs ask for."""

    keys: ClassVar = {
        BELOW: "jobs that end with the one that asked for them",
        _STOPS: "jobs below which all end, and how far that is",
    }

    def restored(self, ctx: Context) -> None:
        self.shared.stops = WorkList(ctx, _STOPS)

    @handles(Enqueue)
    def enqueue(self, step: Step, command: Command, body: Enqueue, at: int) -> None:
        """Make a job for a run, unless its call was answered before.

        Raises:
            PoisonRecord: the call would leave something else than a job.
        """
        if body.left.kind != CHILD or is_note(body.left.id):
            detail = f"{body.left.kind} {body.left.id[:200]!r} is not what a call for a job leaves"
            raise PoisonRecord("forged_result", detail)
        job = living(step, command, body.run_id)
        refusal = why_not(step, job)
        if job is None or refusal is not None:
            step.answer(command, body.claim_id, *(refusal or ("lost",)))
        elif not is_still_ending(step, job, body.child):  # else its run asks again
            step.answer(command, body.claim_id, *_made(step, job, body))

    def may_go_on(self, step: Step, job: Job) -> bool:
        """Stop a job below one that has ended without success, or is being cancelled."""
        cause = cause_above(step, job)
        if cause is not None:
            stop(step, job, _why(cause))
        return cause is None

    def ended(self, step: Step, job: Job) -> None:
        if job.status != SUCCEEDED and has_any_below(step, job):
            stop_below(step, job)
        leave(step, job)

    def revived(self, step: Step, job: Job) -> None:
        """Have a job that lives again ask anew for those that did not succeed."""
        come_back(step, job)
        if job.workflow_id is not None:
            spare_below(step, job)
            for result in steps_of(step.checkpoints, job):
                if has_failed(step, result):
                    drop(step.checkpoints, job, result)

    def handled(self, step: Step) -> None:
        self._stop(step)

    def tick(self, step: Step) -> None:
        """End jobs below those that have ended."""
        self._stop(step)

    def rests(self) -> bool:
        return not len(self.shared.stops)

    def _stop(self, step: Step) -> None:
        """End as many jobs as one step does, level by level."""
        while step.looked[Children] < AT_ONCE:
            found = self.shared.stops.some(step, AT_ONCE)
            for name, behind in found:
                self._stop_some(step, name, behind)
            if not found:
                return

    def _stop_some(self, step: Step, name: bytes, behind: bytes) -> None:
        """End jobs behind a key, as far as the step goes."""
        most = max(0, AT_ONCE - step.looked[Children])
        wanted = stop_named(name)
        start = below(wanted.parent_id, wanted.gather)
        found = step.store.range(behind + b"\0" if behind else start, after(start))
        keys = [key for key, _ in islice(found, most + 1)]
        step.looked[Children] += 1 + min(len(keys), most)
        for key in keys[:most]:
            _stop_one(step, key, wanted)
        if len(keys) <= most:
            self.shared.stops.drop(step, name)
        elif most:
            self.shared.stops.put(step, name, keys[most - 1])


def _stop_one(step: Step, key: bytes, wanted: Stop) -> None:
    """End a job, and have those below it end also if its worker has to stop it first."""
    job = step.table.get(split(key)[-1])
    if job is None:
        step.store.delete(key)
        return
    # One that an earlier life asked for may live again since, below the life that has ended now.
    if not wanted.concerns(job) and (wanted.gather or cause_above(step, job) is None):
        return
    if is_live(job):
        stop(step, job, _why(step.table.get(wanted.parent_id)))
    if has_any_below(step, job):
        stop_below(step, job)


def _made(step: Step, job: Job, body: Enqueue) -> tuple[ReplyKind, str, str | None]:
    known = result_of(step.checkpoints, job, body.left.id)
    if known is not None:
        return "made", "", known.value
    try:
        child = make(step, in_workflow(step, job), body.child)
    except PoisonRecord as error:
        return ("conflict" if error.reason == "conflict" else "refused"), error.detail, None
    value = user_json.write({"job_id": child.job_id}).decode()
    keep(step.checkpoints, job, replace(body.left, value=value))
    return "made", "", value


def _why(parent: Job | None) -> str:
    if parent is None or (is_live(parent) and not parent.cancel_requested):
        return "it is not needed any more"
    told = "is being cancelled" if is_live(parent) else f"is {parent.status}"
    return f"job {parent.job_id}, which asked for it, {told}"
