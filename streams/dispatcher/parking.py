"""Parks a job: opens its waits, and ends those at once for which nothing needs to be awaited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from streams.dispatcher import approvals, gathers
from streams.dispatcher import job as jobs
from streams.dispatcher.approval_rows import cancel_unawaited
from streams.dispatcher.checkpoints import keep, result_of
from streams.dispatcher.park_order import EndsInOrder, is_late, late_since, over_at
from streams.dispatcher.recent_events import APART_MS, Offered, RecentEvents
from streams.dispatcher.step import Step
from streams.dispatcher.tree import successor
from streams.dispatcher.wait_ends import end_of_job_before, first_of, has_got, takes
from streams.dispatcher.wait_faults import WaitFaults, counts_since
from streams.dispatcher.waiting import (
    LISTENED,
    begin,
    drop,
    end_wait,
    ends_as_before,
    group_over,
    late_by,
    left_by,
    note_look,
    timed_out,
)
from streams.errors import LONGEST_WAIT_SECONDS, PermanentError
from streams.event_match import read_match
from streams.serde.job_states import WAITING
from streams.serde.records import Job, StepResult, Wait
from streams.serde.step_ids import seen_id
from streams.topology.model import Topology


class Parking:
    """Begins the waits of one partition's jobs."""

    def __init__(self, topology: Topology, recent: RecentEvents) -> None:
        self._body_ms = topology.topics["payloads"].retention_ms
        self._recent = recent
        self._faults = WaitFaults(topology, recent)

    def park(self, step: Step, job: Job, asked: Iterable[Wait]) -> None:
        """Have a job wait; it is ready again at once if one of the groups is over already.

        The run that parks gives its attempt back. What an earlier run waited for, or asked people,
        and no task of this one, is dropped.
        """
        asked = tuple(asked)
        listened = tuple(wait.in_groups(()) for wait in job.waits)
        job = jobs.moved(job, WAITING, step.now, attempts=max(0, job.attempts - 1), waits=listened)
        step.table.put(job)
        left = {wait.id: _left(step, job, wait) for wait in asked}
        for wait in asked:
            if left[wait.id] is None:
                job = self._open(step, job, wait)
        left_out = tuple(w for w in job.waits if w.group == LISTENED and not w.listened)
        job = drop(step, job, left_out) if left_out else job
        job = self._end_in_order(step, job, asked, left)
        job = self._freed(step, job)
        cancel_unawaited(step, job, job.waits)

    def listen(self, step: Step, job: Job, asked: Wait) -> None:
        """Open a wait while its run goes on, unless it is open or over."""
        if _left(step, job, asked) is None:
            job = self._open(step, job, replace(asked, group=LISTENED, listened=True))
            self._end_at_once(step, job, asked, self._at_once(step, job, asked))

    def _freed(self, step: Step, job: Job) -> Job:
        """The job, with a wait refused that it awaits again, and that would never end."""
        wait = self._faults.endless(step, job)
        if wait is None:
            return job
        message = f"{wait.id}: what it waits for waits for this job: each would wait for ever"
        return end_wait(step, job, wait, left_by(wait, raises="WaitRefused", message=message))

    def _open(self, step: Step, job: Job, asked: Wait) -> Job:
        known = _open_wait(job, asked.id)
        if known is None:
            return begin(step, job, self._fixed(step, job, asked))
        listened = known.listened or asked.listened
        # What a run only listens to is still in the groups of the park before it.
        wait = replace(known.in_groups(asked.groups or known.groups), listened=listened)
        job = replace(job, waits=tuple(wait if each is known else each for each in job.waits))
        step.table.put(job)
        return job

    def _end_in_order(
        self, step: Step, job: Job, asked: tuple[Wait, ...], left: Mapping[str, StepResult | None]
    ) -> Job:
        """End the waits that something has ended, or does at once, in its order.

        Refusals come first, unless one ended before the park: that counts.
        """
        last = self._recent.last + 1
        ends = EndsInOrder(last, refused=last if any(left.values()) else 0)
        in_vain = self._look(step, job, asked, left, ends)
        for place, over in ends:
            wait = asked[place]
            if left[wait.id] is not None:
                job = group_over(step, job, wait, over)
            elif wait.takes_it_alone and self._is_lost(step, over):
                # A later event ends this wait, in its turn.
                _add(step, job, ends, place, wait, self._come(step, job, wait, over.number))
            else:
                job = self._end_at_once(step, job, wait, over)
        for wait in in_vain:
            if _open_wait(job, wait.id) is None:
                note_look(step, job, wait)
        return job

    def _look(
        self,
        step: Step,
        job: Job,
        asked: tuple[Wait, ...],
        left: Mapping[str, StepResult | None],
        ends: EndsInOrder,
    ) -> list[Wait]:
        """Add what ends the waits; return those that no event before them could end."""
        in_vain = []
        for place, wait in enumerate(asked):
            over = left[wait.id] or self._at_once(step, job, wait)
            _add(step, job, ends, place, wait, over)
            begun = _open_wait(job, wait.id)
            if over is None and begun is not None and _looks_back(step, job, wait, begun):
                in_vain.append(begun)
        return in_vain

    def _is_lost(self, step: Step, over: StepResult) -> bool:
        """Whether another wait of the job has got the event that was to end a wait."""
        return over.value is not None and self._recent.is_taken(step, over.number)

    def _end_at_once(self, step: Step, job: Job, asked: Wait, left: StepResult | None) -> Job:
        """End a wait, if its group is not over, that is refused or need not be awaited."""
        wait = _open_wait(job, asked.id)
        if wait is None or left is None:
            return job
        if wait.takes_it_alone and left.value is not None:
            self._recent.take(step, left.number)
        return end_wait(step, job, wait, left)

    def _fixed(self, step: Step, job: Job, asked: Wait) -> Wait:
        """The wait with its end as a point in time, behind all events and waits before it."""
        until = ends_as_before(step, job, asked) or asked.until
        if until is None and asked.timeout_ms is not None:
            until = step.now + asked.timeout_ms
        if until is None and job.payload_ref is not None and self._body_ms is not None:
            expires = job.event_time + self._body_ms
            until = min(expires, step.now + LONGEST_WAIT_SECONDS * 1000)
        if asked.kind == "approval":
            until = approvals.expires_at(step, job, asked, until)
        awaited = step.table.get(asked.job_id) if asked.job_id else None
        if awaited is not None and awaited.tenant_id == job.tenant_id:
            asked = replace(asked, job_id=successor(step, awaited).job_id)
        # An event that came after the command may be read a while later, if this stage was away.
        since = min(step.now, step.at) if asked.since == "now" else counts_since(job, asked)
        behind = self._recent.number(step)
        return replace(asked, until=until, at=step.now, since=str(since), behind=behind)

    def _at_once(self, step: Step, job: Job, asked: Wait) -> StepResult | None:
        """What an open wait leaves that ends at once."""
        wait = _open_wait(job, asked.id)
        if wait is None:  # its group is over
            return None
        if wait.digest != asked.digest:
            return _changed(wait)
        return self._begun(step, job, asked, wait) if wait.at == step.now else None

    def _begun(self, step: Step, job: Job, asked: Wait, wait: Wait) -> StepResult | None:
        """What a wait leaves that is refused, or over, as it begins."""
        fault = self._faults.of(step, job, asked, wait)
        if fault is not None:
            return left_by(wait, raises="WaitRefused", message=f"{wait.id}: {fault}")
        if wait.kind == "event":
            return self._come(step, job, asked)
        if wait.kind == "approval":
            return approvals.over_at_once(step, job, wait)
        if wait.kind == "gather":
            ended = gathers.over_at_once(step, job, wait)
        else:
            ended = end_of_job_before(step, wait) if wait.kind == "job" else None
        is_over = wait.until is not None and wait.until <= step.now
        return ended or (timed_out(step, job, wait) if is_over else None)

    def _come(self, step: Step, job: Job, asked: Wait, passed: int = 0) -> StepResult | None:
        """What a wait leaves that ends with an event before it, behind a number, or by its time."""
        wait = _open_wait(job, asked.id)
        if wait is None:
            return None
        late = late_since(step, job, wait)
        come = self._overtaken if _is_from_now_on(asked) else self._came_before
        came = come(step, job, asked, late, passed)
        return came or (late_by(wait) if is_late(step, wait) else None)

    def _came_before(
        self, step: Step, job: Job, asked: Wait, late: int | None, passed: int
    ) -> StepResult | None:
        """What the first recent event leaves that the wait takes, and that is not too `late`."""
        reaching = replace(asked, since=str(counts_since(job, asked)), behind=asked.behind or 0)
        match = read_match(asked.match)
        # An event that came after another one may have an earlier time; see `APART_MS`.
        since = counts_since(job, asked) - (0 if asked.behind is None else APART_MS)
        behind = max(asked.behind or 0, passed)
        found = self._recent.behind(step, job.tenant_id, match, behind, since)
        return first_of(asked, found, lambda event: takes(job, reaching, event), late)

    def _overtaken(
        self, step: Step, job: Job, asked: Wait, late: int | None, passed: int
    ) -> StepResult | None:
        """What a recent event leaves that came after a command, and was read before it.

        The inputs are read in no common order. Clocks of brokers differ, so an event that a wait of
        the job has got is left out.
        """
        since = step.at + 1
        reaching = replace(asked, since=str(since), behind=0)
        found = self._recent.behind(step, job.tenant_id, read_match(asked.match), passed, since)

        seen = result_of(step.checkpoints, job, seen_id(asked.id, asked.digest))
        got = 0 if seen is None else seen.number

        def is_new(event: Offered) -> bool:
            is_of_before = event.number <= got or has_got(step, job, event)
            return takes(job, reaching, event) and not is_of_before

        return first_of(asked, found, is_new, late)


def _left(step: Step, job: Job, asked: Wait) -> StepResult | None:
    """What a wait has left; one whose match cannot be read is refused, and never begins."""
    found = result_of(step.checkpoints, job, asked.id)
    if found is None and asked.kind == "event":
        try:
            read_match(asked.match)
        except PermanentError as error:
            found = left_by(asked, raises="WaitRefused", message=f"{asked.id}: {error}")
            keep(step.checkpoints, job, found)
    return found


def _is_from_now_on(asked: Wait) -> bool:
    return asked.since == "now" and asked.behind is None


def _looks_back(step: Step, job: Job, asked: Wait, wait: Wait) -> bool:
    """Whether a wait that begins looks at all events before it, up to the newest."""
    begins = wait.kind == "event" and wait.at == step.now and not _is_from_now_on(asked)
    return begins and late_since(step, job, wait) is None


def _add(
    step: Step, job: Job, ends: EndsInOrder, place: int, asked: Wait, left: StepResult | None
) -> None:
    """Add what ends a wait, if anything does."""
    if left is not None:
        ends.add(place, left, over_at(step, _open_wait(job, asked.id), left))


def _changed(wait: Wait) -> StepResult:
    message = (
        f"{wait.id}: the job waits under this name already, for something else: give another "
        "wait another name"
    )
    return left_by(wait, raises="WaitRefused", message=message)


def _open_wait(job: Job, wait_id: str) -> Wait | None:
    return next((wait for wait in job.waits if wait.id == wait_id), None)
