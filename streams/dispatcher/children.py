"""Makes the jobs that runs ask for.

The id of such a job is made of its parent's scope and the call that asks for it, so one call makes
one job, however often the parent's run repeats.
"""

from __future__ import annotations

from dataclasses import replace

from streams import user_json
from streams.dispatcher.approval_rows import has_lapsed
from streams.dispatcher.checkpoints import keep, steps_of
from streams.dispatcher.gathers import forget_end
from streams.dispatcher.job import is_live
from streams.dispatcher.scopes import in_scope, share
from streams.dispatcher.step import Step
from streams.dispatcher.tree import (
    forget_place,
    has_any_below,
    move_away,
    newest,
    note,
    successor,
    with_replays,
)
from streams.errors import ChildFailed, PoisonRecord
from streams.new_jobs import FIRST, Generation, from_child
from streams.serde.ids import child_job_id, scope_owner
from streams.serde.job_states import SUCCEEDED
from streams.serde.records import ChildSpec, Job, Parent, StepResult
from streams.serde.step_ids import CHILD


def make(step: Step, parent: Job, spec: ChildSpec, gather: str = "") -> Job:
    """The job that a call of a parent's run asks for, made now unless it is there.

    A replay works in the scope of the job that it repeats, so it finds that one's jobs, or their
    own replays: those that live or have succeeded become its own; others begin again, in the scope
    that they had last, unless another replay works there.

    Raises:
        PoisonRecord: the call asked for something else before, or the workflow is too deep.
    """
    job_id = child_job_id(parent.tenant_id, parent.scope, spec.call)
    known = step.table.get(job_id)
    if known is not None and known.request_hash != spec.digest:
        raise PoisonRecord("conflict", f"{spec.call} asked for job {job_id} with another input")
    if parent.depth >= step.topology.workflows.most_levels:
        raise PoisonRecord(
            "too_deep",
            f"{parent.depth} jobs are above this one: raise workflows.most_levels in the "
            "topology, or let an earlier job ask for it",
        )
    if known is None:
        job = from_child(job_id, parent, spec, gather, step.topology, place=FIRST, now=step.now)
        return _admit(step, job)
    last = newest(step, known)
    other = _alive_in_scope(step, known, last)
    if other is not None:
        step.table.put(replace(last, replayed_as=other.job_id))
        last = other
    for each in (known, last) if gather else ():
        forget_end(step, parent, each)
    if is_live(last) or last.status == SUCCEEDED:
        return _adopt(step, parent, last, gather, spec)
    return _again(step, parent, spec, gather, known, last)


def is_still_ending(step: Step, parent: Job, spec: ChildSpec) -> bool:
    """Whether the job of a call is being cancelled: the call makes it again once it has ended."""
    known = step.table.get(child_job_id(parent.tenant_id, parent.scope, spec.call))
    if known is None:
        return False
    last = newest(step, known)
    last = _alive_in_scope(step, known, last) or last
    return is_live(last) and last.cancel_requested


def _alive_in_scope(step: Step, known: Job, last: Job) -> Job | None:
    """The live job in the scope in which a job would begin again: a scope has one at most.

    It is a replay of an earlier job of that scope, so nothing that `known` names leads to it.
    """
    if is_live(last) or last.status == SUCCEEDED:
        return None
    scope = _former(known, last).scope
    return next((job for job in in_scope(step, scope) if is_live(job)), None)


def _former(known: Job, last: Job) -> Job:
    """The job that a job goes on behind: steps of another handler are no use."""
    return last if last.type == known.type else known


def _again(step: Step, parent: Job, spec: ChildSpec, gather: str, known: Job, last: Job) -> Job:
    """Begin a job again that ended without success: it goes on where its newest replay had got.

    It works in the scope of that one, so that it begins none of its effects a second time.
    """
    for each in with_replays(step, known):
        move_away(step, each)
    epoch = max(known.epoch, last.epoch, 1)  # a lease of a job of epoch 0 has no steps
    place = Generation(known.incarnation + 1, epoch)
    job = from_child(known.job_id, parent, spec, gather, step.topology, place=place, now=step.now)
    former = _former(known, last)
    job = replace(job, scope=former.scope, input=former.input)
    if scope_owner(job.scope) != job.job_id:
        share(step, job)
    inherit_steps(step, job, former)
    return _admit(step, job)


def _admit(step: Step, job: Job) -> Job:
    note(step, job)
    step.admit(job)
    return step.table.get(job.job_id) or job


def _adopt(step: Step, parent: Job, known: Job, gather: str, spec: ChildSpec) -> Job:
    move_away(step, known)
    place = Parent(parent.job_id, parent.incarnation, spec.call, gather, spec.abandoned)
    job = replace(known, parent=place, depth=parent.depth + 1)
    step.table.put(job)
    if is_live(job) or has_any_below(step, job):
        note(step, job)
    return job


def inherit_steps(step: Step, job: Job, old: Job) -> None:
    """Copy the finished steps of `old` to a job that continues in its scope.

    A wait that was refused never began: the new job asks for it again. So it does for an effect
    that people had to approve, and nobody decided about it in time, and for a job that did not
    succeed.
    """
    for result in steps_of(step.checkpoints, old):
        lapsed = result.raises == "WaitRefused" or has_lapsed(result) or has_failed(step, result)
        if not lapsed:
            keep(step.checkpoints, job, result)


def has_failed(step: Step, result: StepResult) -> bool:
    """Whether a kept result is of a job that did not succeed: a replay asks for it again."""
    if result.kind != CHILD:
        return result.raises == ChildFailed.__name__
    job = step.table.get(user_json.read(result.value or "null")["job_id"])
    if job is None or (is_live(job) and (job.parent is None or job.parent.abandoned)):
        return False  # what lives and does not end with its parent goes on
    return successor(step, job).status != SUCCEEDED


def stand_in(step: Step, old: Job, new: Job) -> tuple[Job, Job]:
    """Let the replay of a job that has not ended take its place below their parent.

    Returns both; the old one has no parent any more, so its end concerns nobody.
    """
    if old.parent is None or not is_live(old):
        return old, new
    new = replace(new, parent=old.parent, depth=old.depth)
    forget_place(step, old)
    note(step, new)
    return replace(old, parent=None), new
