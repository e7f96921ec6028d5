"""Cancels by events: an event ends the live jobs of a type that were made of earlier events.

A route says which (`Route.cancels`). This part reads the tenant's events in the order in which jobs
are made of them: what comes after the event has a higher number. If an event concerns more jobs
than one step may end, the rest follows in `tick`. Until then `may_go_on` ends a job that would be
leased, and stops one whose run speaks, so that none of them begins or succeeds.

A job that was made before its type could be cancelled has no entry in `cancellable`. It gets one in
the round that the sweep makes after the routes changed. Until the end of that round no cancel is
finished, and each job that the round comes by is held against the unfinished ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import structlog

from streams.dispatcher import metrics
from streams.dispatcher.job import is_live
from streams.dispatcher.live_index import Live
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.parts import cancellable, unfinished_cancels
from streams.dispatcher.parts.cancellable import CancellableJobs, bucket
from streams.dispatcher.parts.unfinished_cancels import EventCancel, UnfinishedCancels
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import stop
from streams.runtime.processor import Context
from streams.serde.ids import event_job_id
from streams.serde.job_states import LEASED
from streams.serde.records import Envelope, Job
from streams.topology.by_value import value_of
from streams.topology.model import Cancels, Route

log = structlog.get_logger(__name__)

_EACH = 4
"""How many jobs each event looks at at once, however many the events before it concerned."""
_LONGEST_TYPE = 100
"""How much of an event's type a cancelled job keeps."""


class EventCancels(Part):
    """Ends the jobs that events cancel, a part in each step."""

    keys: ClassVar = {**cancellable.KEYS, **unfinished_cancels.KEYS}

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._without_value: set[Route] = set()  # logged, each once

    def restored(self, ctx: Context) -> None:
        self._jobs = CancellableJobs(ctx, self.topology)
        self._unfinished = UnfinishedCancels(ctx)

    def routed(self, step: Step, event: Envelope, route: Route, at: int, late: bool) -> None:
        """End the jobs that an event cancels, or some of them; the event's own job is not made yet.

        An event of the past that met its route late ends what is older than itself.
        """
        if route.cancels is None:
            return
        value = value_of(route.cancels.by, event)
        if not value:
            self._cancels_nothing(event, route, route.cancels)
            return
        by_time = late or self.shared.gives_kept  # jobs of earlier events may get later numbers
        cancel = _cancel(event, route.cancels, value, at, None if by_time else self._jobs.last)
        own = step.table.get(cancel.job_id)
        if own is not None and own.event is not None and own.event.event_id == event.event_id:
            return  # the event was read before
        cancel, number = self._in_place(cancel, own)
        cancel = self._scan(step, cancel, max(_EACH, _left(step)))
        if not cancel.is_scanned or self._awaits_jobs():
            self._unfinished.put(number or self._jobs.next_number(), cancel)
        elif number is not None:
            self._unfinished.remove(number)

    def admitted(self, step: Step, job: Job) -> None:
        """Give a new job its entry; end it if a cancel that is not finished means it."""
        now = step.table.get(job.job_id)
        if self._jobs.has_type(job.type) and now is not None and is_live(now):
            self._jobs.put(now)
            self._stopped(step, now)

    def revived(self, step: Step, job: Job) -> None:
        self.admitted(step, job)

    def ended(self, step: Step, job: Job) -> None:
        # While routes change, entries may be those of an earlier type.
        if self._jobs.has_type(job.type) or self._moves():
            self._jobs.remove(job.job_id)

    def may_go_on(self, step: Step, job: Job) -> bool:
        """Whether no unfinished cancel means a job; otherwise it is stopped now."""
        return not self._stopped(step, job)

    def tick(self, step: Step) -> None:
        """Go on with cancels that are not finished."""
        for number, cancel in self._unfinished.unscanned(AT_ONCE):
            if _left(step) <= 0:
                return
            self._unfinished.put(number, self._scan(step, cancel, _left(step)))
        if not self._awaits_jobs():
            for number, cancel in self._unfinished.some(AT_ONCE):
                if cancel.is_scanned:
                    self._unfinished.remove(number)

    def is_due(self, step: Step, live: Live) -> bool:
        # Not by its type: the part `Routes` may have changed that in this very look.
        return self._moves()

    def mend(self, step: Step, job: Job) -> bool:
        """Give a job the entries that it should have under the present routes."""
        stopped = self._stopped(step, job)
        now = step.table.get(job.job_id)
        if now is None or not is_live(now):
            return stopped
        return self._jobs.put(now) or stopped

    def _moves(self) -> bool:
        """Whether entries may not be those of the present routes yet."""
        return self.shared.unrouted and self._jobs.is_kept

    def _awaits_jobs(self) -> bool:
        """Whether jobs of earlier events may have no entry yet."""
        return self.shared.unrouted or self.shared.gives_kept

    def _in_place(self, cancel: EventCancel, own: Job | None) -> tuple[EventCancel, int | None]:
        """The cancel, and the number of the earlier one that it takes the place of, if any.

        So a bucket has few unfinished cancels, however many events of a subject come. It looks from
        where the earlier one stands, so that it comes to the last job although more events follow.
        """
        if own is None or not is_live(own):  # the earlier one may mean a living job of its own
            for number, earlier in self._unfinished.in_bucket(cancel.bucket):
                if cancel.covers(earlier):
                    at = "" if earlier.is_scanned else earlier.behind
                    return replace(cancel, behind=at, began=at), number
        return cancel, None

    def _scan(self, step: Step, cancel: EventCancel, limit: int) -> EventCancel:
        """Look at some jobs that an event may concern; returns the cancel as it goes on later."""
        name = bytes.fromhex(cancel.bucket)
        found = self._jobs.jobs(name, cancel.behind, cancel.to, limit + 1)
        for job_id, number in found[:limit]:
            job = step.table.get(job_id)
            if job is not None and cancel.means(job, number):
                _end(step, job, cancel)
        step.looked[EventCancels] += min(limit, len(found))
        return cancel.looked(found[limit - 1][0] if len(found) > limit else None)

    def _stopped(self, step: Step, job: Job) -> bool:
        """End a job if an unfinished cancel means it; whether anything changed."""
        if not self._unfinished:
            return False
        number, buckets = self._jobs.entry(job, self._unfinished.bys(job.type))
        for name in buckets:
            for _, cancel in self._unfinished.in_bucket(name.hex()):
                if cancel.means(job, number):
                    return _end(step, job, cancel)
        return False

    def _cancels_nothing(self, event: Envelope, route: Route, cancels: Cancels) -> None:
        metrics.CANCELS_WITHOUT_VALUE.inc()
        if route not in self._without_value:
            self._without_value.add(route)
            log.warning(
                "event cancels nothing: it has no value to compare; map one, or correct the route",
                by=cancels.by,
                source=event.source,
                event_type=event.event_type,
            )


def _cancel(
    event: Envelope, cancels: Cancels, value: str, at: int, until: int | None
) -> EventCancel:
    return EventCancel(
        bucket(event.tenant_id, cancels.job, cancels.by, value).hex(),
        cancels.job,
        cancels.by,
        event.event_id,
        event_job_id(event.tenant_id, event.source, event.dedup_key),
        at,
        until,
        f"event {event.event_type[:_LONGEST_TYPE]} {event.event_id}",
    )


def _end(step: Step, job: Job, cancel: EventCancel) -> bool:
    """End a job, or have its worker end it; False if that was asked before."""
    if job.status in LEASED and job.cancel_requested:
        return False
    metrics.EVENT_CANCELS.labels(metrics.of_type(job.type)).inc()
    stop(step, job, cancel.reason)
    return True


def _left(step: Step) -> int:
    """How many jobs may still be looked at in a step."""
    return AT_ONCE - step.looked[EventCancels]
