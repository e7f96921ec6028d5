"""Which event ends a wait, and what the wait leaves that an event or another job has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace

from streams import user_json
from streams.dispatcher.checkpoints import steps_of
from streams.dispatcher.job import is_live
from streams.dispatcher.recent_events import APART_MS, Offered
from streams.dispatcher.step import Step
from streams.dispatcher.tree import successor
from streams.dispatcher.waiting import left_by
from streams.errors import ChildFailed
from streams.event_match import read_match
from streams.serde.job_states import SUCCEEDED
from streams.serde.records import Job, StepResult, Wait
from streams.serde.step_ids import end_id

MOST_LOOKED = 2_000
"""How many recent events one wait is held against when it begins."""


def takes(job: Job, wait: Wait, event: Offered) -> bool:
    """Whether an event ends a wait; one that is read again is not taken again."""
    return (
        (wait.behind or 0) < event.number
        and int(wait.since) - APART_MS <= event.at
        and event.info.event_id not in (*job.all_event_ids, wait.after_event)
        and not (wait.takes_it_alone and event.taken)
        and read_match(wait.match).takes(event.info)
    )


def has_got(step: Step, job: Job, event: Offered) -> bool:
    """Whether a wait of the job has ended with an event."""
    left = (each.value for each in steps_of(step.checkpoints, job) if each.kind == "event")
    values = (user_json.read(value) for value in left if value is not None)
    return event.info.event_id in [value.get("after_event") for value in values]


def taken_by(wait: Wait, event: Offered) -> StepResult:
    """What an event leaves that ends a wait."""
    ref = event.envelope.payload_ref
    place = {"number": event.number, "at": event.at, "after_event": event.info.event_id}
    value = {"event": asdict(event.info), "payload_ref": asdict(ref), **place}
    return replace(left_by(wait, user_json.write(value).decode()), number=event.number)


def first_of(
    wait: Wait, found: Iterable[Offered], taken: Callable[[Offered], bool], late: int | None
) -> StepResult | None:
    """What the first event leaves that is taken, if that is not too `late` (milliseconds)."""
    for looked, event in enumerate(found):
        if looked == MOST_LOOKED:
            told = f"{wait.id}: more than {MOST_LOOKED:,} recent events have this "
            told += f"{read_match(wait.match).equality[0]}: wait for what fewer have"
            told += "" if wait.since == "now" else ", or since='now'"
            return left_by(wait, raises="WaitRefused", message=told)
        if taken(event):
            return taken_by(wait, event) if late is None or event.at <= late else None
    return None


def child_failed(wait: Wait, ended: Job) -> StepResult:
    """What the end leaves of a job that the waiting one had asked for, and that did not succeed."""
    error = ended.last_error or f"it is {ended.status}"
    about = {"job_id": ended.job_id, "type": ended.type, "error": error}
    told = str(ChildFailed(**about))
    return left_by(wait, user_json.write(about).decode(), ChildFailed.__name__, told)


def end_of_job_before(step: Step, wait: Wait) -> StepResult | None:
    """What the wait for a job leaves that has ended already, or None."""
    awaited = step.table.get(wait.job_id or "")
    ended = None if awaited is None else successor(step, awaited)
    return end_of_job(wait, ended) if ended is not None and not is_live(ended) else None


def end_of_job(wait: Wait, ended: Job) -> StepResult:
    """What the end of a job leaves: its result, or its error."""
    if ended.status == SUCCEEDED:
        return left_by(wait, ended.result or "null")
    if ended.parent is not None and wait.id == end_id(ended.parent.call):
        return child_failed(wait, ended)
    told = f"job {ended.job_id} is {ended.status}: {ended.last_error or 'without an error'}"
    return left_by(wait, raises="JobFailed", message=told)
