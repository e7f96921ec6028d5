"""Which of two jobs of a group takes the other's place: one function for each rule.

A newcomer meets the group's open job. One of the two ends `cancelled`, and says which job
superseded it; the other stands for both. Of two jobs the newer is the one whose event is later by
its time. So an event that met its route late, or is read again, takes no newer one's place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

import orjson

from streams.dispatcher import metrics
from streams.dispatcher.groups import Group, Groups, Place, new_place
from streams.dispatcher.job import is_live, scheduled
from streams.dispatcher.routing import has_begun
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import end_timer, requeue, withdraw
from streams.serde.job_states import PENDING, SCHEDULED
from streams.serde.records import BatchedEvent, EventInfo, Job, PayloadRef
from streams.serde.sizes import MAX_BATCH_BYTES, MOST_EVENT_IDS
from streams.topology.flow_control import Batch, Debounce, Rule, Singleton

SUPERSEDED = "superseded"


@dataclass(slots=True)
class Meeting:
    """A newcomer, `job`, and its group.

    `open` is the job that it meets, which has `place`; `begun` is the one that the group keeps.
    """

    step: Step
    groups: Groups
    name: str
    job: Job
    group: Group
    open: Job | None
    place: Place | None
    begun: Job | None

    @property
    def is_older(self) -> bool:
        """Whether the newcomer's event came before that of the open job."""
        return self.open is not None and self.job.event_time < self.open.event_time

    def enter(self, job: Job, place: Place | None = None) -> None:
        """The newcomer becomes the open job, in the place of the one that was, if any was."""
        self.groups.set_place(self.step, job.job_id, place or new_place(job, self.name))
        self.groups.set_group(self.step, self.name, replace(self.group, open=job.job_id))
        if job != self.job:
            self.step.table.put(job)

    def succeed(self, earlier: Job, place: Place, job: Job) -> None:
        """The newcomer takes the place of the open job, and stands for it."""
        if job.status == PENDING == earlier.status:
            job = replace(job, ready_at=earlier.ready_at)  # also its place in the queue
        self.groups.set_place(self.step, earlier.job_id, None)
        self.enter(job, self.groups.noted(self.step, place, _event_id(earlier, place)))
        supersede(self.step, earlier, job.job_id)

    def join(self, open_: Job, place: Place, note: bytes | None) -> Place:
        """The open job stands for the newcomer, which ends."""
        place = self.groups.noted(self.step, place, note)
        self.groups.set_place(self.step, open_.job_id, place)
        supersede(self.step, self.job, open_.job_id)
        return place


def meeting(step: Step, groups: Groups, job: Job, name: str) -> Meeting:
    """What a newcomer meets in its group."""
    open_ = _living(step, groups.group(step, name).open, job.type)
    if open_ is not None and (has_begun(open_) or not step.may_go_on(open_)):
        open_ = None  # a cancel or its deadline has ended it just now
    place = None if open_ is None else groups.place(step, open_.job_id)
    begun = _living(step, groups.group(step, name).begun, job.type)
    group = Group(open_.job_id if open_ and place else None, begun.job_id if begun else None)
    return Meeting(step, groups, name, job, group, open_ if place else None, place, begun)


def _living(step: Step, job_id: str | None, type_: str) -> Job | None:
    """A job of a group, if it has not ended and its route gave it no other type since."""
    job = None if job_id is None else step.table.get(job_id)
    return job if job is not None and is_live(job) and job.type == type_ else None


def meet(rule: Rule, met: Meeting) -> None:
    """Decide between a newcomer and the open job of its group."""
    _RULES[type(rule)](met, rule)


def supersede(step: Step, job: Job, by: str) -> None:
    """End a job because another one runs for it."""
    metrics.SUPERSEDED.labels(metrics.of_type(job.type)).inc()
    withdraw(step, replace(job, superseded_by=by), f"superseded by {by}", SUPERSEDED)


def complete(step: Step, groups: Groups, job: Job, place: Place) -> Job:
    """The job with all that its place stands for; the notes are deleted."""
    if not place.taken:
        return job
    notes, count = groups.take_notes(step, place), place.taken + 1
    if place.of_batch:
        events = (*_own_event(job), *map(_event, notes))
        return replace(job, events=events, event_count=count)
    own = [] if job.event is None else [job.event.event_id]
    ids = sorted([*(note.decode() for note in notes), *own])  # ids are ordered by time
    return replace(job, event_ids=tuple(ids), event_count=count)


def _debounce(met: Meeting, rule: Debounce) -> None:
    job, now = met.job, met.step.now
    open_, place = met.open, met.place
    if open_ is None or place is None:
        met.enter(_at(job, _debounced(job, job.event_time, rule), now))
    elif met.is_older:
        met.join(open_, place, _event_id(job, place))
    elif open_.status == PENDING or (open_.due_at or 0) <= job.event_time:
        met.succeed(open_, place, job)  # its time is over: it is put off no more
    else:
        met.succeed(open_, place, _at(job, _debounced(job, place.first_at, rule), now))


def _debounced(job: Job, first_at: int, rule: Debounce) -> int:
    due = job.event_time + ceil(rule.seconds * 1000)
    return due if rule.max_seconds is None else min(due, first_at + ceil(rule.max_seconds * 1000))


def _singleton(met: Meeting, rule: Singleton) -> None:
    _KEEPS[rule.keep](met)


def _keep_newest(met: Meeting) -> None:
    _newest(met, met.job, stays=False)


def _keep_first(met: Meeting) -> None:
    if met.open is not None and met.place is not None:
        met.join(met.open, met.place, _event_id(met.job, met.place))
    elif met.begun is not None and not met.begun.cancel_requested:
        supersede(met.step, met.job, met.begun.job_id)
    else:
        met.enter(_behind(met), new_place(met.job, met.name, stays=True))


def _queue_one(met: Meeting) -> None:
    _newest(met, _behind(met), stays=True)


def _behind(met: Meeting) -> Job:
    """The newcomer, which waits for the end of the job that has begun, if there is one."""
    if met.begun is None:
        return met.job
    waiting = scheduled(met.job, None, met.step.now)
    return replace(waiting, queued_behind=met.begun.job_id)


def _newest(met: Meeting, job: Job, *, stays: bool) -> None:
    if met.open is None or met.place is None:
        met.enter(job, new_place(job, met.name, stays=stays))
    elif met.is_older:
        met.join(met.open, met.place, _event_id(job, met.place))
    else:
        met.succeed(met.open, replace(met.place, stays=stays), job)


def _batch(met: Meeting, rule: Batch) -> None:
    open_, place, job = met.open, met.place, met.job
    note = _whole(job)
    if open_ is not None and place is not None and place.size + len(note) <= MAX_BATCH_BYTES:
        place = met.join(open_, place, note)
        if job.draft and not open_.draft:
            open_ = replace(open_, draft=True)
            met.step.table.put(open_)
        if place.taken + 1 >= rule.size:
            _close(met, open_)
        return
    if open_ is not None:
        _close(met, open_)
    fresh = replace(new_place(job, met.name), size=len(note), of_batch=True)
    due = job.event_time + ceil(rule.seconds * 1000)
    met.enter(_at(job, due, met.step.now), fresh)


def _close(met: Meeting, full: Job) -> None:
    """Let a full batch begin."""
    met.group = replace(met.group, open=None)
    met.groups.set_group(met.step, met.name, met.group)
    if full.status == SCHEDULED:
        end_timer(met.step, full)
        requeue(met.step, full)


def _at(job: Job, due: int, now: int) -> Job:
    return scheduled(job, due, now) if due > now else job


def _event_id(job: Job, place: Place) -> bytes | None:
    """The note of a job's event; None if it has none, or the place has all that a job names."""
    noted = job.event is not None and place.noted < MOST_EVENT_IDS - 1
    return job.event.event_id.encode() if noted and job.event is not None else None


def _whole(job: Job) -> bytes:
    (own,) = _own_event(job)
    return orjson.dumps(asdict(own))


def _own_event(job: Job) -> tuple[BatchedEvent, ...]:
    if job.event is None or job.payload_ref is None:
        return ()
    return (BatchedEvent(job.event, job.payload_ref),)


def _event(note: bytes) -> BatchedEvent:
    value = orjson.loads(note)
    ref = value["payload_ref"]
    ref["offsets"] = tuple(ref["offsets"])
    return BatchedEvent(EventInfo(**value["event"]), PayloadRef(**ref))


_RULES: Mapping[type[Any], Callable[[Meeting, Any], None]] = {
    Debounce: _debounce,
    Singleton: _singleton,
    Batch: _batch,
}
_KEEPS = {"newest": _keep_newest, "first": _keep_first, "queue_one": _queue_one}
