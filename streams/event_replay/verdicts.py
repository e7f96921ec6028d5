"""Decides what an old event gets from a replay: a job of a type, or nothing, for a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from streams.serde.records import Envelope, PayloadRef
from streams.topology.model import Topology

Reason = Literal["no_route", "tenant_erased", "tenant_disabled", "body_purged"]
"""Why an event gets no job."""


class StillThere(Protocol):
    """What still exists of old events."""

    def closed(self, tenant_id: str) -> Reason | None:
        """Why a tenant gets no jobs."""

    def has_body(self, ref: PayloadRef) -> bool:
        """Whether a body can still be read."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Judges the events of one replay: each gets a `job`, or one as the routes of now say."""

    topology: Topology
    job: str | None
    there: StillThere

    def judge(self, event: Envelope) -> tuple[str | None, Reason | None]:
        """Return the type of the job that an event gets, or None and why it gets none."""
        route = self.topology.route(event.source, event.event_type)
        type_ = self.job or (route.job if route else None)
        if type_ is None:
            return None, "no_route"
        if closed := self.there.closed(event.tenant_id):
            return None, closed
        if not self.there.has_body(event.payload_ref):
            return None, "body_purged"
        return type_, None
