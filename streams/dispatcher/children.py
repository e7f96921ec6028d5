"""Makes the jobs that runs ask for, and finds them again below their parent.

The id of such a job is made of its parent's scope and the call that asks for it, so one call makes
one job, however often the parent's run repeats. The store `parts` keeps `k` parent_id gather job_id
for each that ends with its parent, as long as it has not ended, or jobs below it have not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from streams import user_json
from streams.dispatcher.job import is_live, is_same_life
from streams.dispatcher.step import Step
from streams.errors import ChildFailed, PoisonRecord
from streams.new_jobs import FIRST, Generation, from_child
from streams.serde.ids import child_job_id
from streams.serde.job_states import CANCELLED, SUCCEEDED
from streams.serde.keys import SEPARATOR, after, join
from streams.serde.records import ChildSpec, Job, Parent, ReplyKind, StepResult
from streams.serde.step_ids import CHILD

BELOW = b"k"
_MOST_REPLAYS = 100


def why_not(step: Step, job: Job | None) -> tuple[ReplyKind, str] | None:
    """The answer to a run that may ask for no jobs; None if it may."""
    if job is None:
        return "lost", "the lease of this run is over"
    if job.cancel_requested or job.tenant_id in step.shared.closed.erased:
        return "cancel", "the job is being cancelled"
    return None


def in_workflow(step: Step, job: Job) -> Job:
    """A job that asks for others, as one of a workflow: its own, unless it is in another."""
    if job.workflow_id is None:
        job = replace(job, workflow_id=workflow_of(job))
        step.table.put(job)
    return job


def make(step: Step, parent: Job, spec: ChildSpec, gather: str = "") -> Job:
    """The job that a call of a parent's run asks for, made now unless it is there.

    A replay works in the scope of the job that it repeats, so it finds that one's jobs, or their
    own replays: those that live or have succeeded become its own; others begin again, in the scope
    that they had.

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
        return _admit(step, parent, spec, gather, FIRST, None)
    last = newest(step, known)
    if is_live(last) or last.status == SUCCEEDED:
        return _adopt(step, parent, last, gather, spec)
    place = Generation(known.incarnation + 1, known.epoch)
    return _admit(step, parent, spec, gather, place, known.scope)


def _admit(
    step: Step, parent: Job, spec: ChildSpec, gather: str, place: Generation, scope: str | None
) -> Job:
    job_id = child_job_id(parent.tenant_id, parent.scope, spec.call)
    job = from_child(job_id, parent, spec, gather, step.topology, place=place, now=step.now)
    job = replace(job, scope=scope or job.scope)
    _note(step, job)
    step.admit(job)
    return step.table.get(job_id) or job


def _adopt(step: Step, parent: Job, known: Job, gather: str, spec: ChildSpec) -> Job:
    if known.parent is not None:
        step.store.delete(_key(known, known.parent))
    place = Parent(parent.job_id, parent.incarnation, spec.call, gather, spec.abandoned)
    job = replace(known, parent=place)
    step.table.put(job)
    if is_live(job) or has_any_below(step, job):
        _note(step, job)
    return job


def newest(step: Step, job: Job) -> Job:
    """The replay that does a job's work now, or the job itself."""
    for _ in range(_MOST_REPLAYS):
        replay = step.table.get(job.replayed_as) if job.replayed_as else None
        if replay is None:
            return job
        job = replay
    return job


def successor(step: Step, job: Job) -> Job:
    """The replay that took the place of a job in review, which is cancelled then; or the job."""
    while job.status == CANCELLED and job.replayed_as:
        replay = step.table.get(job.replayed_as)
        if replay is None:
            break
        job = replay
    return job


def has_failed(step: Step, result: StepResult) -> bool:
    """Whether a kept result is of a job that ended without success: a replay asks for it again."""
    if result.kind != CHILD:
        return result.raises == ChildFailed.__name__
    job = step.table.get(user_json.read(result.value or "null")["job_id"])
    return job is not None and not is_live(job) and newest(step, job).status != SUCCEEDED


def stop_below(step: Step, parent_id: str, gather: str | None = None) -> None:
    """Have the jobs end that a parent, or one of its gathers, has; also those below them."""
    step.shared.stops.put(step, below(parent_id, gather).removeprefix(BELOW))


def stand_in(step: Step, old: Job, new: Job) -> tuple[Job, Job]:
    """Let the replay of a job that has not ended take its place below their parent.

    Returns both; the old one has no parent any more, so its end concerns nobody.
    """
    if old.parent is None or not is_live(old):
        return old, new
    new = replace(new, parent=old.parent, depth=old.depth)
    step.store.delete(_key(old, old.parent))
    _note(step, new)
    return replace(old, parent=None), new


def workflow_of(job: Job) -> str:
    """The id of the workflow that a job is in, or would be the root of."""
    if job.workflow_id is not None:
        return job.workflow_id
    return job.job_id if job.incarnation == 1 else f"{job.job_id}.{job.incarnation}"


def parent_of(step: Step, job: Job) -> Job | None:
    """The job that asked for this one, if its row is kept."""
    if job.parent is None:
        return None
    parent = step.table.get(job.parent.job_id)
    same = parent is not None and is_same_life(parent, job.parent.incarnation)
    return parent if same else None


def above(step: Step, job: Job) -> Iterator[Job]:
    """The jobs above one that it ends with, the nearest first."""
    for _ in range(job.depth):
        parent = None if job.parent is None or job.parent.abandoned else parent_of(step, job)
        if parent is None:
            return
        yield parent
        job = parent


def below(parent_id: str, gather: str | None = None) -> bytes:
    """Where the keys of the jobs begin that a parent, or one of its gathers, has."""
    return BELOW + join(parent_id, *([] if gather is None else [gather])) + SEPARATOR


def has_any_below(step: Step, job: Job) -> bool:
    """Whether jobs that end with this one have not ended; only a job of a workflow may have any."""
    if job.workflow_id is None:
        return False
    prefix = below(job.job_id)
    return next(iter(step.store.range(prefix, after(prefix))), None) is not None


def leave(step: Step, job: Job) -> None:
    """Forget where a job stands that has ended, and all above it that only waited for that."""
    while job.parent is not None and not has_any_below(step, job):
        if not job.parent.abandoned:
            step.store.delete(_key(job, job.parent))
        parent = parent_of(step, job)
        if parent is None or is_live(parent):
            return
        job = parent


def _note(step: Step, job: Job) -> None:
    if job.parent is not None and not job.parent.abandoned:
        step.store.put(_key(job, job.parent), b"")


def _key(job: Job, parent: Parent) -> bytes:
    return below(parent.job_id, parent.gather) + join(job.job_id)
