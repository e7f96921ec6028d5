"""What still exists of old events: their tenants, and their bodies."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from confluent_kafka.admin import AdminClient

from streams.event_replay.verdicts import Reason
from streams.kafka.offsets import earliest, read_offsets
from streams.serde.records import PayloadRef
from streams.settings import Settings
from streams.topology.model import Topology

_TENANTS_SECONDS, _BODIES_SECONDS = 5.0, 60.0
_TIMEOUT = 10.0


class Standing:
    """Answers from what it asked a few seconds ago.

    `bodies` is the number of partitions of `payloads`; `closed` says why a tenant gets no jobs.
    """

    def __init__(
        self,
        admin: AdminClient,
        prefix: str,
        bodies: int,
        closed: Callable[[str], Reason | None],
    ) -> None:
        self._admin = admin
        self._prefix = prefix
        self._places = [("payloads", number) for number in range(bodies)]
        self._ask_closed = closed
        self._closed: dict[str, Reason | None] = {}
        self._starts: Mapping[tuple[str, int], int] = {}
        self._tenants_until = self._bodies_until = 0.0

    def closed(self, tenant_id: str) -> Reason | None:
        """Why a tenant gets no jobs, as of a few seconds ago; None if it gets them."""
        now = time.monotonic()
        if now > self._tenants_until:
            self._closed.clear()
            self._tenants_until = now + _TENANTS_SECONDS
        if tenant_id not in self._closed:
            self._closed[tenant_id] = self._ask_closed(tenant_id)
        return self._closed[tenant_id]

    def has_body(self, ref: PayloadRef) -> bool:
        """Whether the topic still has a body, as of a minute ago.

        Raises:
            KafkaException: the broker does not say where its partitions begin.
        """
        now = time.monotonic()
        if now > self._bodies_until:
            self._starts = read_offsets(
                self._admin, self._prefix, self._places, earliest(), _TIMEOUT
            )
            self._bodies_until = now + _BODIES_SECONDS
        start = self._starts.get(("payloads", ref.partition), 0)
        return all(offset >= start for offset in ref.offsets)  # an empty body has none


def standing(
    admin: AdminClient,
    settings: Settings,
    topology: Topology,
    closed: Callable[[str], Reason | None],
) -> Standing:
    """What still exists in a cluster."""
    bodies = topology.topics["payloads"].partitions
    return Standing(admin, settings.topic_prefix, bodies, closed)
