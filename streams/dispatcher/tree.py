"""Where a job stands: the jobs above it, those below it, and the replays that do its work.

The store `parts` keeps `k` parent_id gather job_id for each job that ends with its parent, as long
as it has not ended, or jobs below it have not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from streams.dispatcher.job import is_live
from streams.dispatcher.scopes import in_scope
from streams.dispatcher.step import Step
from streams.serde.ids import child_job_id
from streams.serde.job_states import CANCELLED, REPLAYABLE, SUCCEEDED
from streams.serde.keys import SEPARATOR, after, join, split
from streams.serde.records import Job, Parent

BELOW = b"k"
_MOST_REPLAYS = 100


def in_workflow(step: Step, job: Job) -> Job:
    """A job that asks for others, as one of a workflow: its own, unless it is in another."""
    if job.workflow_id is None:
        job = replace(job, workflow_id=job.own_workflow)
        step.table.put(job)
    return job


def parent_of(step: Step, job: Job) -> Job | None:
    """The job that asked for this one, if its row is kept."""
    if job.parent is None:
        return None
    parent = step.table.get(job.parent.job_id)
    if parent is None or parent.is_same_life(job.parent.incarnation):
        return parent
    # A job that began again in its scope has what its life before asked for.
    same = child_job_id(parent.tenant_id, parent.scope, job.parent.call) == job.job_id
    return parent if same else None


def above(step: Step, job: Job) -> Iterator[Job]:
    """The jobs above one that it ends with, the nearest first."""
    for _ in range(job.depth):
        parent = None if job.parent is None or job.parent.abandoned else parent_of(step, job)
        if parent is None:
            return
        job = _heir(step, parent)
        yield job


def cause_above(step: Step, job: Job) -> Job | None:
    """The job above that takes this one along: it ended without success, or is being cancelled."""
    for each in above(step, job):
        if each.cancel_requested or not (is_live(each) or each.status == SUCCEEDED):
            return each
    return None


def below(parent_id: str, gather: str | None = None) -> bytes:
    """Where the keys of the jobs begin that a parent, or one of its gathers, has."""
    return BELOW + join(parent_id, *([] if gather is None else [gather])) + SEPARATOR


def has_any_below(step: Step, job: Job) -> bool:
    """Whether jobs that end with this one have not ended; only a job of a workflow may have any."""
    if job.workflow_id is None:
        return False
    spaces = (below(each.job_id) for each in _with_inherited(step, job))
    return any(True for space in spaces for _ in step.store.range(space, after(space)))


class Stop(NamedTuple):
    """Jobs that end: those that one life of a parent asked for, or one of its gathers.

    A later life of the parent has jobs under the same keys, which go on. `first` and `last` are the
    incarnations of the life.
    """

    first: int
    last: int
    parent_id: str
    gather: str | None = None

    @property
    def name(self) -> bytes:
        """What the list of this work calls it."""
        which = [] if self.gather is None else [self.gather]
        return join(str(self.first), str(self.last), self.parent_id, *which)

    def concerns(self, job: Job) -> bool:
        """Whether one of the parent's jobs is of its life that ended."""
        return job.parent is not None and self.first <= job.parent.incarnation <= self.last


def stop_named(name: bytes) -> Stop:
    """What the list of this work calls so."""
    first, last, parent_id, *which = split(name)
    return Stop(int(first), int(last), parent_id, *which)


def stop_below(step: Step, parent: Job, gather: str | None = None) -> None:
    """Have the jobs end that a parent, or one of its gathers, has; also those below them."""
    for each in _with_inherited(step, parent):
        if gather is None or each.scope == parent.scope:  # else that gather had other jobs
            step.shared.stops.put(step, _stop_of(each, gather).name)


def spare_below(step: Step, parent: Job) -> None:
    """Do not end the jobs of a parent that lives again, or whose replay has them now."""
    for each in _with_inherited(step, parent):
        step.shared.stops.drop(step, _stop_of(each).name)


def is_needed(step: Step, job: Job, since: int) -> bool:
    """Whether a finished job is kept: it is above a live one, or may be asked how it ended.

    The job that asked for it may, and a replay of that one, which works in its scope. So may a
    replay that is still to come, as long as the job that it would repeat has not ended before
    `since` (milliseconds).
    """
    found = {job.job_id}
    for each in (askers := [job]):
        for other in _may_ask(step, each):
            if is_live(other) or (other.status in REPLAYABLE and other.updated_at > since):
                return True
            if other.status != SUCCEEDED and other.job_id not in found:  # it may begin again
                found.add(other.job_id)
                askers.append(other)
    return has_any_below(step, job)


def _may_ask(step: Step, job: Job) -> Iterator[Job]:
    """The jobs in whose scope somebody may ask how a job ended, and those in its own scope.

    A job that continues asks in the scope of its next incarnation.
    """
    scopes = dict.fromkeys([job.scope] if job.workflow_id is not None else [])
    chain = (*with_replays(step, job), *_replayed(step, job))
    ids = {each.job_id for each in chain}
    for place in (each.parent for each in chain if each.parent is not None):
        asker = step.table.get(place.job_id)
        if asker is None:
            continue
        again = child_job_id(asker.tenant_id, asker.scope, place.call)  # also in a later life
        if place.incarnation == asker.incarnation or again in ids:
            scopes[asker.scope] = None
    return (each for scope in scopes for each in in_scope(step, scope))


def _replayed(step: Step, job: Job) -> Iterator[Job]:
    """The jobs that a job repeats."""
    for _ in range(_MOST_REPLAYS):
        old = step.table.get(job.replay_of) if job.replay_of else None
        if old is None:
            return
        yield old
        job = old


def note(step: Step, job: Job) -> None:
    """Find a job below those with which it ends."""
    if job.parent is not None and not job.parent.abandoned:
        step.store.put(_key(job, job.parent), b"")


def forget_place(step: Step, job: Job) -> None:
    """Find a job no more below the one that asked for it."""
    if job.parent is not None and not job.parent.abandoned:
        step.store.delete(_key(job, job.parent))


def leave(step: Step, job: Job) -> None:
    """Forget where a job stands that has ended, and all above it that only waited for that."""
    if not has_any_below(step, job):
        move_away(step, job)


def move_away(step: Step, job: Job) -> None:
    """Forget where a job stands, and all above it that have ended and only waited for that."""
    while job.parent is not None:
        forget_place(step, job)
        parent = step.table.get(job.parent.job_id)
        parent = None if parent is None else _heir(step, parent)
        if parent is None or is_live(parent) or has_any_below(step, parent):
            return
        job = parent


def come_back(step: Step, job: Job) -> None:
    """Find a job that lives again below those with which it ends."""
    for each in (job, *above(step, job)):
        note(step, each)


def with_replays(step: Step, job: Job) -> Iterator[Job]:
    """A job, and the replays that did its work after it."""
    for _ in range(_MOST_REPLAYS):
        yield job
        replay = step.table.get(job.replayed_as) if job.replayed_as else None
        if replay is None:
            return
        job = replay


def newest(step: Step, job: Job) -> Job:
    """The replay that does a job's work now, or the job itself."""
    *_, last = with_replays(step, job)
    return last


def successor(step: Step, job: Job) -> Job:
    """The replay that took the place of a job in review, which is cancelled then; or the job."""
    while job.status == CANCELLED and job.replayed_as:
        replay = step.table.get(job.replayed_as)
        if replay is None:
            break
        job = replay
    return job


def _heir(step: Step, job: Job) -> Job:
    """The job that has what this one asked for: its replay, if that took its place in review."""
    while (replay := _taken_over_by(step, job)) is not None:
        job = replay
    return job


def _with_inherited(step: Step, job: Job) -> Iterator[Job]:
    """A job, and those in review before it, whose jobs it has now."""
    yield job
    yield from takewhile(lambda old: _taken_over_by(step, old), _replayed(step, job))


def _taken_over_by(step: Step, job: Job) -> Job | None:
    """The replay that took the place of a job in review, and works in its scope.

    A replay that has continued does not say any more whether it did.
    """
    replay = step.table.get(job.replayed_as) if job.replayed_as else None
    if job.status != CANCELLED or replay is None or replay.replay_of != job.job_id:
        return None
    return replay if replay.scope == job.scope or replay.continuations else None


def _stop_of(parent: Job, gather: str | None = None) -> Stop:
    last = parent.incarnation
    first = last - parent.continuations if gather is None else last
    return Stop(first, last, parent.job_id, gather)


def _key(job: Job, parent: Parent) -> bytes:
    return below(parent.job_id, parent.gather) + join(job.job_id)
