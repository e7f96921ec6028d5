"""One line for each thing that happened, from the records that the stages commit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from streams.dead_letter import is_replayed
from streams.dev.console.screen import Line
from streams.errors import DecodeError
from streams.serde import effect_states, job_states
from streams.serde.codec import COMMAND, DEAD_LETTER, DUPLICATE, ENVELOPE, HELD, JOB, LEDGER_ENTRY
from streams.serde.codec import QUARANTINED as QUARANTINED_CODEC
from streams.serde.effect_scopes import is_shared
from streams.serde.records import (
    DeadLetter,
    Duplicate,
    Envelope,
    Held,
    Job,
    LedgerEntry,
    Quarantined,
)
from streams.serde.records.commands import kind_of
from streams.serde.step_ids import shown_id

_RUNS_REMEMBERED = 10_000
_LONGEST_ERROR = 200
_WAITS_NAMED = 3

CODECS: dict[str, Any] = {
    "events.received": ENVELOPE,
    "duplicates": DUPLICATE,
    "quarantine": QUARANTINED_CODEC,
    "jobs": JOB,
    "ledger": LEDGER_ENTRY,
    "jobs.held": HELD,
    "dlq": DEAD_LETTER,
}
"""The topics that are followed, and how their records are read."""

ALARMS = ("quarantine", "jobs.held", "dlq")
"""The topics whose records are all warnings or errors."""


class Activity:
    """Makes lines of records; remembers when each running job was started."""

    def __init__(self) -> None:
        self._started: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._makers: dict[type, Callable[[Any], Line | None]] = {
            Envelope: _event,
            Duplicate: _duplicate,
            Quarantined: _quarantined,
            Job: self._job,
            LedgerEntry: _effect,
            Held: _held,
            DeadLetter: _dead_letter,
        }

    def line(self, value: object) -> Line | None:
        """The line of a record; None if it says nothing that a developer waits for."""
        return self._makers[type(value)](value)

    def _job(self, job: Job) -> Line | None:
        id_ = f"{job.job_id} {job.type}"
        if job.replayed_as is not None:  # it ended before, and its end was shown
            return Line("job", f"replayed   {id_} as {job.replayed_as}")
        if job.status in job_states.LEASED:
            return self._begun(job, id_)
        if job.status in job_states.DUE_LATER:
            return _waits(job, id_)
        if job.status in job_states.MOVABLE:
            # Later changes of a job that waits, such as its time having come, are not news.
            submitted = job.event is None and job.created_at == job.updated_at
            return Line("job", f"submitted  {id_}") if submitted else None
        return self._stopped(job, id_)

    def _begun(self, job: Job, id_: str) -> Line | None:
        if self._started.get(job.job_id, (0, 0))[0] == job.epoch:
            return None  # another change of the same run, such as a cancellation asked for
        self._started[job.job_id] = job.epoch, job.updated_at
        if len(self._started) > _RUNS_REMEMBERED:
            self._started.popitem(last=False)
        if job.event is None and job.created_at == job.updated_at:  # no record says `pending`
            return Line("job", f"submitted  {id_}, and started")
        attempt = f", attempt {job.attempts} of {job.max_attempts}" if job.attempts > 1 else ""
        return Line("job", f"started    {id_}{attempt}")

    def _took(self, job: Job) -> str:
        _, started = self._started.pop(job.job_id, (0, 0))
        return f" in {(job.updated_at - started) / 1000:.2f} s" if started else ""

    def _stopped(self, job: Job, id_: str) -> Line:
        took = self._took(job)
        causes = {job_states.SUCCEEDED: None, job_states.CANCELLED: job.cancel_reason}
        why = causes.get(job.status, job.last_error)
        state = job_states.BY_NAME.get(job.status)  # None: only a newer release knows it
        level = state.level if state else "warning"
        return Line("job", f"{job.status:<10} {id_}{took}{_because(why)}", level)


def _waits(job: Job, id_: str) -> Line:
    if job.next_retry_at is None:
        return Line("job", f"{job.status:<10} {id_}{_awaited(job)}")
    wait = max(0, job.next_retry_at - job.updated_at) / 1000
    return Line("job", f"retries    {id_} after {wait:.0f} s{_because(job.last_error)}", "warning")


def _awaited(job: Job) -> str:
    """What a parked job waits for, and where a person sees what it asks."""
    parked = [wait for wait in job.waits if wait.group >= 0]
    names = ", ".join(shown_id(wait.id) for wait in parked[:_WAITS_NAMED])
    more = ", ..." if len(parked) > _WAITS_NAMED else ""
    asked = next(
        (f"; see tidegate approvals show {w.approval_id}" for w in parked if w.approval_id), ""
    )
    return f" for {names}{more}{asked}" if parked else ""


def _event(event: Envelope) -> Line:
    what = f"{event.event_id} {event.tenant_id}/{event.source} {event.event_type}"
    if event.routed:
        return Line("event", f"accepted   {what}")
    return Line("event", f"no route   {what}", "warning")


def _duplicate(duplicate: Duplicate) -> Line:
    named = duplicate.last_event_id or "an event"
    return Line(
        "event", f"duplicate  {named} {duplicate.tenant_id}: {duplicate.count} dropped so far"
    )


def _quarantined(body: Quarantined) -> Line | None:
    if body.released_at is not None:
        return None
    what = f"{body.tenant_id}/{body.source}: {body.reason}"
    see = f"see tidegate quarantine show {body.event_id}"
    return Line("event", f"quarantine {what}; {see}", "warning")


def _effect(entry: LedgerEntry) -> Line | None:
    if is_shared(entry.action):  # a job's note of an effect that has an entry of its own
        return None
    what = f"{entry.action} of {entry.job_id}"
    match entry.status:
        case effect_states.CLAIMED:
            return None
        case effect_states.DONE:
            return Line("effect", f"done       {what}")
        case _:
            return Line("effect", f"{entry.status:<10} {what}{_because(entry.error)}", "warning")


def _held(held: Held) -> Line:
    jobs = f"{held.jobs} job" + "s" * (held.jobs != 1)
    return Line("job", f"held       {jobs} of {held.type}: {held.detail}", "warning")


def _dead_letter(letter: DeadLetter) -> Line | None:
    if is_replayed(letter) or letter.discarded_at is not None:
        return None
    if _is_answered(letter):
        return Line("command", f"refused    {letter.reason}{_because(letter.detail)}")
    return Line("dead letter", f"{letter.reason}; see tidegate dlq show {letter.id}", "error")


def _is_answered(letter: DeadLetter) -> bool:
    """Whether it is an operator's command, whose caller is told of the refusal."""
    if letter.topic != "jobs.commands" or letter.value is None:
        return False
    try:
        return kind_of(COMMAND.decode(letter.value)).is_answered
    except DecodeError:
        return False


def _because(error: str | None) -> str:
    return f": {' '.join(error.split())[:_LONGEST_ERROR]}" if error else ""
