"""Turns events into jobs: at once if a route matches, else later once a route matches.

A job that an ingress named in an answer must come to exist. So an event that no route matches is
kept for the window. It gets its job when

- a delivery of it comes again (`duplicates`) and a route matches now;
- the ingress knew the route first, so that the answer to its delivery named a job, and this
  stage's own topology has the route now;
- an operator asks for it (`Reroute`) and a route matches.

All three lead to the same job: its id follows from the event, and `transitions.place` admits one.
The other parts hear of each event that meets its route (`Part.routed`), before it gets its job.
"""

from __future__ import annotations

from typing import ClassVar

from streams import dead_letter
from streams.dispatcher import metrics, routing
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.parts.kept_events import FOR_EVER, KEYS, Kept, KeptEvents
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import place
from streams.errors import PoisonRecord
from streams.new_jobs import from_event
from streams.runtime.part import handles, reads
from streams.runtime.processor import Context, Record
from streams.serde.codec import ENVELOPE
from streams.serde.headers import traceparent
from streams.serde.ids import event_job_id
from streams.serde.records import Command, Envelope, Reroute
from streams.topology.model import Route

_ROLLOUT_MS = 3_600_000
"""An ingress that has a route already may have answered a redelivery of an event that has no route
here. If this stage gets the route within this time, the event gets its job."""


class Events(Part):
    """Makes jobs of events."""

    keys: ClassVar = KEYS

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._routes = routing.digest(shared.topology)

    def restored(self, ctx: Context) -> None:
        self._kept = KeptEvents(ctx, self.topology.window_ms)
        behind = self._kept.held_against(self._routes)
        self.shared.gives_kept = self._kept.count() > 0 and behind is not None

    @reads("events")
    def arrived(self, step: Step, record: Record) -> None:
        """Make the job of a record of `events`, or keep the event."""
        envelope = step.envelope(record)
        trace = traceparent(record.headers)
        event = Kept(record.timestamp, record.offset, trace, record.value or b"")
        route = self._route(envelope)
        if route is not None:
            step.route(envelope, route, event.at)
            self._make(step, envelope, event, route)
            return
        metrics.UNROUTED.inc()
        self._kept.keep(envelope.fingerprint, event)
        if envelope.routed:
            metrics.PROMISED.inc()
            self._kept.expect(envelope.fingerprint, FOR_EVER)

    @reads("duplicates")
    def came_again(self, step: Step, record: Record) -> None:
        """Handle that an event was delivered again: the key is its fingerprint."""
        fingerprint, at = record.key or b"", record.timestamp
        event = self._kept.get(fingerprint) if self._kept.count() else None
        # An older record reports a delivery within an earlier window, not of this event.
        if event is not None and event.at <= at and not self._give(step, fingerprint, event):
            self._kept.expect(fingerprint, at + _ROLLOUT_MS)

    @handles(Reroute)
    def reroute(self, step: Step, command: Command, body: Reroute, at: int) -> None:
        """Make the job of an event that was kept when the operator's command was written."""
        event = self._kept.get(body.fingerprint)
        if event is not None and event.at > at:
            event = None
        if event is None and _has_job(step, command):
            metrics.TWINS.inc()
            return
        name = body.fingerprint.hex()
        envelope = None if event is None else ENVELOPE.decode(event.value)
        if event is None or envelope is None or envelope.tenant_id != command.tenant_id:
            raise PoisonRecord(
                "event_not_kept",
                f"no event {name} without a job: it has one, its window is over, or it is not read "
                "yet; one that is read later gets its job then, if a route matches",
            )
        self._check_route(envelope, name)
        self._give(step, body.fingerprint, event)

    def _check_route(self, envelope: Envelope, name: str) -> None:
        """Refuse to route an event that no route gives a job."""
        route, what = self._route(envelope), f"{name} ({envelope.source}, {envelope.event_type})"
        remedy = "to the topology, restart, then send the command again"
        if route is None:
            raise PoisonRecord("no_route", f"no route matches event {what}: add one {remedy}")
        if route.job is None:
            raise PoisonRecord(
                "cancels_only", f"the route of event {what} makes no job: add a `job` {remedy}"
            )

    def tick(self, step: Step) -> None:
        """Check expected events against changed routes, and forget events past their window."""
        kept = self._kept
        if not kept.count():
            self._gave_all(step)
            return
        for fingerprint, event in kept.overdue(step.now, AT_ONCE):
            if kept.expected_until(fingerprint) == FOR_EVER:
                self._dead_letter(step, event)
            kept.drop(fingerprint, event)
        self._hold_against_routes(step, kept)

    def _hold_against_routes(self, step: Step, kept: KeptEvents) -> None:
        behind = kept.held_against(self._routes)
        if behind is None:
            self._gave_all(step)
            return
        part = kept.expected(behind, AT_ONCE)
        for fingerprint, until in part:
            event = kept.get(fingerprint)
            if event is not None and until >= step.now:
                self._give(step, fingerprint, event)
        kept.hold_against(self._routes, part[-1][0] if len(part) == AT_ONCE else None)
        if len(part) < AT_ONCE:
            self._gave_all(step)

    def _gave_all(self, step: Step) -> None:
        if self.shared.gives_kept:
            step.on_undo(setattr, self.shared, "gives_kept", True)
            self.shared.gives_kept = False

    def _give(self, step: Step, fingerprint: bytes, event: Kept) -> bool:
        envelope = ENVELOPE.decode(event.value)
        route = self._route(envelope)
        if route is None:
            return False
        self._kept.drop(fingerprint, event)
        step.route(envelope, route, event.at, late=True)
        self._make(step, envelope, event, route)
        return True

    def _make(self, step: Step, envelope: Envelope, event: Kept, route: Route) -> None:
        if route.job is None:
            return
        job_id = _job_id(envelope)
        found = place(step, job_id, event.at)
        if found is None:
            metrics.TWINS.inc()
            return
        step.admit(
            from_event(
                job_id,
                envelope,
                route.job,
                route.priority_of(envelope),
                self.topology,
                place=found,
                traceparent=event.traceparent,
                event_time=event.at,
                now=step.now,
                draft=route.draft,
            )
        )

    def _dead_letter(self, step: Step, event: Kept) -> None:
        """Write a dead letter: the ingress had a route for the event, but none came here."""
        envelope = ENVELOPE.decode(event.value)
        if step.table.get(_job_id(envelope)) is not None:
            return
        trace, partition = event.traceparent, self.shared.partition
        # An event that was handed over before its topic had it has no offset, but its own id.
        known = event.offset >= 0
        letter = dead_letter.of_record(
            "dispatcher",
            "events",
            partition,
            event.offset if known else None,
            event.at,
            envelope.tenant_id.encode(),
            event.value,
            [("traceparent", trace.encode())] if trace else (),
            reason="no_route",
            detail=f"no route matches source {envelope.source!r}, type {envelope.event_type!r}, "
            "though the ingress had a route for it: add the route, then replay this record",
            at=step.now,
            tenant_id=envelope.tenant_id,
            id_="" if known else f"dispatcher:events:{partition}:{envelope.event_id}",
        )
        step.bury(letter)

    def _route(self, envelope: Envelope) -> Route | None:
        return self.topology.route(envelope.source, envelope.event_type)


def _job_id(envelope: Envelope) -> str:
    return event_job_id(envelope.tenant_id, envelope.source, envelope.dedup_key)


def _has_job(step: Step, command: Command) -> bool:
    job = step.table.get(command.job_id)
    return job is not None and job.tenant_id == command.tenant_id
