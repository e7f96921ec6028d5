"""How the waits of a job begin and end, and when the job goes on.

The job's row has its open waits. What an ended one left is kept as a finished step is, so the next
run finds it. The waits of one group end together: with the first of them, or, if the group needs
all, with the last or the first error. A wait that is in several groups stays for those that go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

from streams import user_json
from streams.dispatcher.approval_rows import withdraw
from streams.dispatcher.checkpoints import keep, result_of
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import requeue
from streams.serde.ids import new_id
from streams.serde.job_states import WAITING
from streams.serde.records import Command, Job, StepResult, Wait, WaitGroup, WaitOver
from streams.serde.step_ids import passed_id

LISTENED = -1
"""The group of a wait that no run is parked for."""


def left_by(
    wait: Wait, value: str | None = None, raises: str = "", message: str = ""
) -> StepResult:
    """What an ended wait leaves: a value (JSON), or an error's class and message."""
    return StepResult(
        wait.id,
        wait.kind,
        wait.position,
        wait.digest,
        value,
        raises or None,
        message,
        failed_before=wait.failed_before,
    )


def timed_out(step: Step, job: Job, wait: Wait) -> StepResult:
    """What a wait leaves whose time is over; for one that waits for a time, that is no error."""
    if wait.kind == "time":
        return left_by(wait, "null")
    place = user_json.write(_place(step, job, wait)).decode() if wait.kind == "event" else None
    return late_by(wait, place)


def late_by(wait: Wait, place: str | None = None) -> StepResult:
    """What a wait leaves whose time is over before it ended, and how far it had got."""
    return left_by(wait, place, "WaitTimeout", f"{wait.id}: its time is over")


def begin(step: Step, job: Job, wait: Wait) -> Job:
    """Open a wait of a job."""
    step.shared.open_waits.add(step, job, wait)
    return _put(step, job, replace(job, waits=(*job.waits, wait)))


def await_another(step: Step, job: Job, wait: Wait, job_id: str) -> None:
    """Have an open wait for a job's end wait for another job's, which took that one's place."""
    step.shared.open_waits.drop(step, job, wait)
    moved = replace(wait, job_id=job_id)
    step.shared.open_waits.add(step, job, moved)
    waits = tuple(moved if each == wait else each for each in job.waits)
    step.table.put(replace(job, waits=waits))


def end_wait(step: Step, job: Job, wait: Wait, left: StepResult) -> Job:
    """End an open wait with what it leaves, and those of its groups that are over."""
    if not left.number:
        left = replace(left, number=step.shared.open_waits.next_number(step))
    keep(step.checkpoints, job, left)
    return group_over(step, _close(step, job, (wait,)), wait, left)


def group_over(step: Step, job: Job, wait: Wait, left: StepResult) -> Job:
    """Have a job go on, if it is parked, once a group of a wait is over by what the wait left.

    The waits that are in no other group are dropped, with their timers. Those that the job listens
    to stay open, because no event may be missed since the handler began to listen.
    """
    over = {group for group in wait.groups if _is_over(job, group, left)}
    if not over:
        return job
    in_them = {each.id for each in job.waits if not over.isdisjoint(each.groups)}
    job = replace(job, waits=tuple(_without(each, over) for each in job.waits))
    alone = (each for each in job.waits if each.id in in_them and each.group == LISTENED)
    job = drop(step, job, tuple(each for each in alone if not each.listened), left)
    return _resume(step, job) if job.status == WAITING else job


def _is_over(job: Job, group: WaitGroup, left: StepResult) -> bool:
    """Whether a group is over once one of its waits left this."""
    if not group.needs_all or left.raises is not None:
        return True
    return not any(group in wait.groups for wait in job.waits)


def _without(wait: Wait, over: Set[WaitGroup]) -> Wait:
    """A wait in those of its groups that are not over."""
    if over.isdisjoint(wait.groups):
        return wait
    return wait.in_groups(tuple(group for group in wait.groups if group not in over))


def drop(step: Step, job: Job, waits: tuple[Wait, ...], won: StepResult | None = None) -> Job:
    """Close waits, with the timers, and note how far each had got; `won` came before them."""
    for wait in waits:
        _note_progress(step, job, wait, won)
    return _close(step, job, waits)


def close_all(step: Step, job: Job) -> None:
    """Drop the waits of a job that has ended."""
    _close(step, job, job.waits)


def _note_progress(step: Step, job: Job, wait: Wait, won: StepResult | None) -> None:
    """Keep how far a dropped wait had got, and until when it waits.

    If it is asked again, it goes on there. So does a later wait of its name for events.
    """
    progress = _progress(step, job, wait)
    if wait.kind == "event" and wait.at != step.now:  # else see `note_look`
        progress |= _place(step, job, wait, won)
    if wait.until is not None and wait.kind != "approval":
        progress["until"] = wait.until
    if progress:
        _keep_progress(step, job, wait, progress)


def note_look(step: Step, job: Job, wait: Wait) -> None:
    """Keep how far a wait had got that was dropped as it began, and had found no event before."""
    place = {"number": wait.behind or 0, "at": int(wait.since), "after_event": wait.after_event}
    _keep_progress(step, job, wait, _progress(step, job, wait) | place)


def _keep_progress(step: Step, job: Job, wait: Wait, progress: Mapping[str, Any]) -> None:
    value = user_json.write(progress).decode()
    note = StepResult(passed_id(wait.id), "passed", digest=wait.digest, value=value)
    keep(step.checkpoints, job, note)


def _progress(step: Step, job: Job, wait: Wait) -> dict[str, Any]:
    """How far a wait had got when it was dropped; empty if it was not."""
    found = result_of(step.checkpoints, job, passed_id(wait.id))
    progress: dict[str, Any] = {} if found is None else user_json.read(found.value or "{}")
    return progress


def ends_as_before(step: Step, job: Job, asked: Wait) -> int | None:
    """When a wait ends that was dropped and is asked again; None if it was not, or has no end."""
    until: int | None = _progress(step, job, asked).get("until")
    return until


def _place(step: Step, job: Job, wait: Wait, won: StepResult | None = None) -> dict[str, object]:
    """The place behind which no event was offered to a wait yet."""
    number = step.shared.open_waits.offered_to(step, job.tenant_id)
    if won is not None and won.kind == "event" and won.value is not None:
        number = min(number, won.number - 1)  # that went to the other
    place = {"number": max(number, wait.behind or 0), "at": int(wait.since)}
    return place | {"after_event": wait.after_event}


def _resume(step: Step, job: Job) -> Job:
    """Make a parked job ready again; this costs no attempt."""
    requeue(step, replace(job, resumes=job.resumes + 1))
    return step.table.get(job.job_id) or job


def _close(step: Step, job: Job, waits: tuple[Wait, ...]) -> Job:
    left = tuple(wait for wait in job.waits if wait not in waits)
    for wait in waits:
        step.shared.open_waits.drop(step, job, wait)
        if wait.approval_id not in [other.approval_id for other in left]:
            withdraw(step, job, wait)
    return _put(step, job, replace(job, waits=left))


def _put(step: Step, before: Job, after: Job) -> Job:
    _follow_time(step, before, after)
    step.table.put(after)
    return after


def _follow_time(step: Step, before: Job, after: Job) -> None:
    """Set the job's timer to the first end of a wait, if that has changed."""
    old, new = _first_end(before), _first_end(after)
    if old == new:
        return
    key = f"{after.job_id}.{after.incarnation}.w"
    if new is None:
        step.drop_timer(after.tenant_id, key)
        return
    body = WaitOver(after.incarnation, new)
    over = Command(new_id("cmd"), after.tenant_id, after.job_id, 0, step.now, body)
    step.timer(key, new, over)


def _first_end(job: Job) -> int | None:
    return min((wait.until for wait in job.waits if wait.until is not None), default=None)
