"""Decides what an old event gets from a replay: a job of a type, or nothing, for a reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal

from confluent_kafka.admin import AdminClient

from streams.kafka.offsets import earliest, read_offsets
from streams.serde.records import Envelope, PayloadRef
from streams.topology.model import Topology

Reason = Literal["no_route", "cancels_only", "tenant_erased", "tenant_disabled", "body_purged"]
"""Why an event gets no job."""
Closed = Callable[[str], Reason | None]
"""Why a tenant gets no jobs; None if it gets them."""

_TENANTS_SECONDS, _BODIES_SECONDS = 5.0, 60.0
_TIMEOUT = 10.0


class Eligibility:
    """Each event of a replay gets the job type `job`, or without one as the present routes say.

    Its tenant was looked up some seconds ago at most, the bodies that still exist a minute ago.
    """

    def __init__(
        self, admin: AdminClient, prefix: str, topology: Topology, job: str | None, closed: Closed
    ) -> None:
        self._admin, self._prefix = admin, prefix
        self._topology, self._job = topology, job
        self._closed_now = closed
        self._closed: dict[str, Reason | None] = {}
        self._starts: Mapping[tuple[str, int], int] = {}
        self._tenants_until = self._bodies_until = 0.0

    def job_for(self, event: Envelope) -> tuple[str | None, Reason | None]:
        """The type of the job that an event gets, or None and why it gets none.

        Raises:
            KafkaUnavailable, KafkaException: its tenant or its body cannot be looked up.
        """
        route = self._topology.route(event.source, event.event_type)
        type_ = self._job or (route.job if route else None)
        if type_ is None:
            return None, "cancels_only" if route else "no_route"
        if closed := self._closed_recently(event.tenant_id):
            return None, closed
        return (type_, None) if self.has_body(event.payload_ref) else (None, "body_purged")

    def has_body(self, ref: PayloadRef) -> bool:
        """Whether the topic `payloads` still has a body; it always has an empty one."""
        now = time.monotonic()
        if now > self._bodies_until:
            places = [("payloads", n) for n in range(self._topology.topics["payloads"].partitions)]
            self._starts = read_offsets(self._admin, self._prefix, places, earliest(), _TIMEOUT)
            self._bodies_until = now + _BODIES_SECONDS
        start = self._starts.get(("payloads", ref.partition), 0)
        return all(offset >= start for offset in ref.offsets)

    def _closed_recently(self, tenant_id: str) -> Reason | None:
        now = time.monotonic()
        if now > self._tenants_until:
            self._closed.clear()
            self._tenants_until = now + _TENANTS_SECONDS
        if tenant_id not in self._closed:
            self._closed[tenant_id] = self._closed_now(tenant_id)
        return self._closed[tenant_id]
