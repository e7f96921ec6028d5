"""Turns events into jobs: at once if a route matches, else later once a route matches.

A job that an ingress named in an answer must come to exist. So an event that no route matches is
kept for the window. It gets its job when

- a delivery of it comes again (`duplicates`) and a route matches now;
- the answer to its delivery named a job, because the ingress knew the route first, and this
  stage's own topology has the route now;
- an operator asks for it (`Reroute`) and a route matches.

All three lead to the same job: its id follows from the event, and `Lifecycle.place` admits one.
"""

from __future__ import annotations

from collections.abc import Callable

from streams import dead_letter
from streams.dispatcher import jobs, metrics
from streams.dispatcher.kept_events import FOR_EVER, Kept, KeptEvents
from streams.dispatcher.lifecycle import Lifecycle
from streams.errors import PoisonRecord
from streams.runtime.processor import Record
from streams.serde.codec import ENVELOPE
from streams.serde.headers import traceparent
from streams.serde.ids import event_job_id
from streams.serde.records import Command, Envelope, Job, Reroute
from streams.topology.model import Route, Topology

_ROLLOUT_MS = 3_600_000
"""An ingress that has a route already may have answered a redelivery of an event that has no route
here. If this stage gets the route within this time, the event gets its job."""


class Events:
    """Handles the events of one step; `admitted` is called with each new job.

    `routing` is the digest of the topology's routing (`rerouting`).
    """

    def __init__(
        self, life: Lifecycle, topology: Topology, routing: bytes, admitted: Callable[[Job], None]
    ) -> None:
        self._life = life
        self._topology = topology
        self._routing = routing
        self._admitted = admitted
        self._kept = KeptEvents(life.ctx.store("jobs"), topology.window_ms)

    def arrived(self, record: Record, envelope: Envelope) -> None:
        """Make the job of a record of `events`, or keep the event."""
        trace = traceparent(record.headers)
        event = Kept(record.timestamp, record.offset, trace, record.value or b"")
        route = self._route(envelope)
        if route is not None:
            self._make(envelope, event, route)
            return
        metrics.UNROUTED.inc()
        self._kept.keep(envelope.fingerprint, event)
        if envelope.routed:
            metrics.PROMISED.inc()
            self._kept.expect(envelope.fingerprint, FOR_EVER)

    def came_again(self, fingerprint: bytes, at: int) -> None:
        """Handle a record of `duplicates`, written `at`: an event was delivered again."""
        event = self._kept.get(fingerprint) if self._kept.count() else None
        # An older record reports a delivery within an earlier window, not of this event.
        if event is not None and event.at <= at and not self._give(fingerprint, event):
            self._kept.expect(fingerprint, at + _ROLLOUT_MS)

    def reroute(self, command: Command, body: Reroute, at: int) -> None:
        """Make the job of an event that was kept when the operator's command was written."""
        event = self._kept.get(body.fingerprint)
        if event is not None and event.at > at:
            event = None
        if event is None and self._has_job(command):
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
        if not self._give(body.fingerprint, event):
            raise PoisonRecord(
                "no_route",
                f"no route matches event {name} ({envelope.source}, {envelope.event_type}): "
                "add one to the topology, restart, then send the command again",
            )

    def tidy(self, limit: int) -> None:
        """Check expected events against changed routes, and forget events past their window."""
        if not self._kept.count():
            return
        for fingerprint, event in self._kept.overdue(self._life.now, limit):
            if self._kept.expected_until(fingerprint) == FOR_EVER:
                self._dead_letter(event)
            self._kept.drop(fingerprint, event)
        self._hold_against_routes(limit)

    def _hold_against_routes(self, limit: int) -> None:
        behind = self._kept.held_against(self._routing)
        if behind is None:
            return
        part = self._kept.expected(behind, limit)
        for fingerprint, until in part:
            event = self._kept.get(fingerprint)
            if event is not None and until >= self._life.now:
                self._give(fingerprint, event)
        self._kept.hold_against(self._routing, part[-1][0] if len(part) == limit else None)

    def _give(self, fingerprint: bytes, event: Kept) -> bool:
        envelope = ENVELOPE.decode(event.value)
        route = self._route(envelope)
        if route is None:
            return False
        self._kept.drop(fingerprint, event)
        self._make(envelope, event, route)
        return True

    def _make(self, envelope: Envelope, event: Kept, route: Route) -> None:
        job_id = _job_id(envelope)
        place = self._life.place(job_id, event.at)
        if place is None:
            metrics.TWINS.inc()
            return
        job = jobs.from_event(
            job_id,
            envelope,
            route,
            self._topology,
            place=place,
            traceparent=event.traceparent,
            event_time=event.at,
            now=self._life.now,
        )
        self._admitted(job)

    def _dead_letter(self, event: Kept) -> None:
        """Write a dead letter: an answer named the event's job, but no route for it came."""
        envelope = ENVELOPE.decode(event.value)
        if self._life.store.get(_job_id(envelope)) is not None:
            return
        trace, partition = event.traceparent, self._life.ctx.partition
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
            "though its sender was told of a job: add the route, then replay this record",
            at=self._life.now,
            tenant_id=envelope.tenant_id,
            id_="" if known else f"dispatcher:events:{partition}:{envelope.event_id}",
        )
        metrics.DEAD_LETTERS.labels(letter.reason).inc()
        self._life.ctx.forward(dead_letter.TOPIC, *dead_letter.encoded(letter))

    def _has_job(self, command: Command) -> bool:
        job = self._life.store.get(command.job_id)
        return job is not None and job.tenant_id == command.tenant_id

    def _route(self, envelope: Envelope) -> Route | None:
        return self._topology.route(envelope.source, envelope.event_type)


def _job_id(envelope: Envelope) -> str:
    return event_job_id(envelope.tenant_id, envelope.source, envelope.dedup_key)
