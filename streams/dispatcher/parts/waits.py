"""Waits: a run parks, and its job goes on once an event, a time or another job's end has come.

A tenant's events, parks and timers meet in one partition and one transaction, so the order in which
this part reads them decides each race. An event that was read before its wait is found among the
recent ones (`recent_events`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import merge
from itertools import islice, takewhile
from typing import ClassVar

from streams.dispatcher import approvals, gathers, metrics, offers, recent_events, wait_index
from streams.dispatcher.job import is_live
from streams.dispatcher.live_index import Live
from streams.dispatcher.living_lease import living
from streams.dispatcher.offers import Offers
from streams.dispatcher.parking import Parking
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.recent_events import Offered, RecentEvents
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import bury
from streams.dispatcher.tree import successor
from streams.dispatcher.wait_ends import end_of_job, end_of_job_before, taken_by, takes
from streams.dispatcher.wait_faults import check_asked
from streams.dispatcher.wait_index import Place, WaitIndex
from streams.dispatcher.waiting import await_another, close_all, end_wait, timed_out
from streams.event_match import equalities
from streams.runtime.part import handles, reads
from streams.runtime.processor import Context, Record
from streams.serde import run_ends
from streams.serde.job_states import CANCELLED, FAILED, WAITING
from streams.serde.records import (
    Command,
    Ended,
    Job,
    Listen,
    StepResult,
    Wait,
    WaitOver,
)

MOST_RESUMES = 10_000
_TIME_OVER = {"approval": approvals.time_over, "gather": gathers.time_over}
"""What a wait leaves whose time is over, by its kind; others leave what `timed_out` says."""
_LATE_MS = 60_000
_LOOKED_AT = 5 * AT_ONCE
"""How many waits one step looks at, of all events and ends of jobs together."""


class Waits(Part):
    """Begins and ends the waits of one partition's jobs."""

    keys: ClassVar = {**recent_events.KEYS, **wait_index.KEYS, **offers.KEYS}

    def restored(self, ctx: Context) -> None:
        self._recent = RecentEvents(self.topology, ctx)
        self._parking = Parking(self.topology, self._recent)
        self._offers = Offers(ctx)
        recent = self._recent
        self._open = WaitIndex(ctx, self._offered_to, recent.number, lambda: recent.forgotten)
        self.shared.open_waits = self._open

    @handles(run_ends.PARKED)
    def parked(self, step: Step, job: Job, body: Ended) -> None:
        """Give the lease back and wait, unless what the job waits for is there already."""
        check_asked(body.waits)
        if job.resumes >= MOST_RESUMES:
            why = f"it went on {MOST_RESUMES:,} times after a wait: end it, and begin a new job"
            bury(step, job, FAILED, why, reason="too_many_waits")
        else:
            self._parking.park(step, job, body.waits)

    @handles(Listen)
    def listen(self, step: Step, command: Command, body: Listen, at: int) -> None:
        """Open a wait while its run goes on, and answer."""
        check_asked((body.wait,))
        job = living(step, command, body.run_id)
        if job is not None:
            self._parking.listen(step, job, body.wait)
        step.answer(command, body.claim_id, "lost" if job is None else "listening")

    @reads("events")
    def arrived(self, step: Step, record: Record) -> None:
        """Keep an event for later waits if its type is declared, and offer it to the open ones."""
        self._recent.follow_declaration(step)
        if not self._recent.keeps_any and not self._open.any_event:
            return
        envelope = step.envelope(record)
        is_kept = self._recent.concerns(envelope)
        concerns = any(self._open.knows(envelope.tenant_id, e) for e in equalities(envelope))
        if not is_kept and not concerns:
            return
        event = Offered(self._recent.number(step), record.timestamp, record.value or b"")
        if is_kept:
            self._recent.keep(step, event)
        if concerns and (self._offers.has(envelope.tenant_id) or self._has_done_enough(step)):
            self._offers.go_on(step, event, b"")  # behind those that came before
        elif concerns:
            self._offer(step, event, b"")

    @handles(WaitOver)
    def over(self, step: Step, command: Command, body: WaitOver, at: int) -> None:
        """End the waits whose time is over."""
        job = step.table.get(command.job_id)
        same = job is not None and job.incarnation == body.incarnation
        if job is None or not same or not self._time_over(step, job, body.due_at):
            metrics.STALE.labels("WaitOver").inc()

    def ended(self, step: Step, job: Job) -> None:
        """Close what a job that has ended waited for, and tell the jobs that waited for it."""
        if job.waits:
            close_all(step, job)
        self._tell_end(step, job)

    def tick(self, step: Step) -> None:
        """Go on with what one step could not do, and forget old events."""
        self._recent.tick(step)
        if not len(self._offers):
            return
        for job_id in self._offers.job_ids(step, AT_ONCE):
            self._offers.is_over(step, job_id)
            job = step.table.get(job_id)
            if job is not None and not is_live(job):
                self._tell_end(step, job)
        for event, behind in list(islice(self._offers.events(step), AT_ONCE)):
            if self._has_done_enough(step):
                return
            self._offers.is_over(step, event)
            if not self._offer(step, self._recent.renewed(step, event), behind):
                return

    def rests(self) -> bool:
        """Whether everything was offered to all waits."""
        return not len(self._offers)

    def is_due(self, step: Step, live: Live) -> bool:
        return live.status == WAITING and 0 < live.at < step.now - _LATE_MS

    def mend(self, step: Step, job: Job) -> bool:
        """End waits whose timer was lost."""
        metrics.TIMERS_LOST.inc()
        return self._time_over(step, job, step.now)

    def _time_over(self, step: Step, job: Job, due: int) -> bool:
        """End the waits of a job whose time is over, first those that end first.

        That is decided by the clock of the process whose timer was `due`: this one's may be behind.
        """
        changed, by = False, max(due, step.now)
        while late := [w for w in job.waits if w.until is not None and w.until <= by]:
            wait = min(late, key=lambda each: (each.until, each.id))
            time_over = _TIME_OVER.get(wait.kind, timed_out)
            left = self._came_before(step, job, wait) or time_over(step, job, wait)
            job = end_wait(step, job, wait, left)
            changed = True
        return changed

    def _came_before(self, step: Step, job: Job, wait: Wait) -> StepResult | None:
        """What came before the time was over leaves, if not all waits were told of it yet."""
        if wait.kind == "job":
            return end_of_job_before(step, wait)
        if wait.kind != "event" or not self._offers.has(job.tenant_id):
            return None
        for offered, behind in self._offers.events(step):
            if offered.envelope.tenant_id != job.tenant_id:
                continue
            event = self._recent.renewed(step, offered)
            if takes(job, wait, event):
                if wait.takes_it_alone:
                    self._offers.go_on(step, self._taken(step, event), behind)
                return taken_by(wait, event)
        return None

    def _offered_to(self, step: Step, tenant_id: str) -> int:
        """The number of the last event of a tenant that was offered to all of its waits."""
        if self._offers.has(tenant_id):
            for event, _ in self._offers.events(step):
                if event.envelope.tenant_id == tenant_id:
                    return event.number - 1
        return self._recent.last

    def _has_done_enough(self, step: Step) -> bool:
        """Whether this step has looked at as many waits as a transaction ends in time with."""
        return step.looked[Waits] >= _LOOKED_AT

    def _tell_end(self, step: Step, ended: Job) -> None:
        most = 0 if self._has_done_enough(step) else AT_ONCE
        places = self._open.for_job(step, ended.job_id, most + 1)
        for place in places[:most]:
            step.looked[Waits] += 1
            if found := self._found(step, place):
                _tell(step, *found, ended)
        if len(places) > most:
            self._offers.go_on_with_job(step, ended.job_id)

    def _offer(self, step: Step, event: Offered, behind: bytes) -> bool:
        """Offer an event to some of the waits behind a place; whether that were all.

        Note the event if others are left.
        """
        for looked, place in enumerate(self._places(step, event, behind)):
            if looked == AT_ONCE:
                self._offers.go_on(step, event, behind)
                return False
            behind = place.order
            step.looked[Waits] += 1
            found = self._found(step, place)
            if found is None or not takes(*found, event):
                continue
            job, wait = found
            if wait.takes_it_alone:
                event = self._taken(step, event)
            end_wait(step, job, wait, taken_by(wait, event))
        return True

    def _taken(self, step: Step, event: Offered) -> Offered:
        self._recent.take(step, event.number)
        return replace(event, taken=True)

    def _places(self, step: Step, event: Offered, behind: bytes) -> Iterator[Place]:
        """Waits that may take an event, in the order in which they began, all before the event."""
        tenant_id, most = event.envelope.tenant_id, AT_ONCE + 1
        found = (
            self._open.for_event(step, tenant_id, equality, behind, most)
            for equality in equalities(event.envelope)
        )
        return takewhile(lambda place: place.behind < event.number, merge(*found))

    def _found(self, step: Step, place: Place) -> tuple[Job, Wait] | None:
        """The job and its open wait; None if an earlier wait of the same offer ended it."""
        job = step.table.get(place.job_id)
        if job is not None and job.incarnation == place.incarnation:
            for wait in job.waits:
                if wait.id == place.wait_id:
                    return job, wait
        return None


def _tell(step: Step, job: Job, wait: Wait, ended: Job) -> None:
    """End a wait for a job's end, or have it wait for the replay that took that job's place.

    The replay is made after the end of its job, and many waits hear of that later.
    """
    last = successor(step, ended)
    replay = last.replayed_as if last.status == CANCELLED else None
    if is_live(last) or replay is not None:
        await_another(step, job, wait, replay or last.job_id)
    else:
        end_wait(step, job, wait, end_of_job(wait, last))
