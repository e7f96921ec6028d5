"""Follows the settings of endpoints, and which tenants are closed, from the topic `tenants`."""

from __future__ import annotations

from dataclasses import replace

from streams.closed_tenants import address_of
from streams.delivery.endpoint import Endpoint, enabled_anew, made
from streams.delivery.part import Part
from streams.delivery.step import ERASING, Step
from streams.delivery.store import log_unusable
from streams.errors import PoisonRecord
from streams.runtime.part import reads
from streams.runtime.processor import Record


class Settings(Part):
    """Sets and removes endpoints; nothing is sent to those of closed tenants."""

    @reads("tenants")
    def apply(self, step: Step, record: Record) -> None:
        """Fold in a record of `tenants`.

        An endpoint's record that cannot be used is logged, and leaves the endpoint as it was: a
        dead letter would keep its sealed secrets past the tenant's erasure.
        """
        address = address_of(record.key)
        if address is not None and address[1] == "endpoint":
            tenant_id, _, endpoint_id = address
            try:
                self._endpoint(tenant_id, endpoint_id, record, step)
            except PoisonRecord as error:
                log_unusable(tenant_id, endpoint_id, error)
            return
        erased = self.shared.closed.apply(step.ctx, step.store.queue, record)
        if erased is not None:
            step.begin(ERASING + erased.encode())
            for endpoint in self.shared.endpoints.of(erased):
                step.remove_endpoint(endpoint)

    def _endpoint(self, tenant_id: str, endpoint_id: str, record: Record, step: Step) -> None:
        before = self.shared.endpoints.get(tenant_id, endpoint_id)
        if record.value is None:
            if before is not None:
                step.remove_endpoint(before)
            return
        if tenant_id in self.shared.closed.erased:
            return
        endpoint = _set(record.value, record.timestamp, before)
        if endpoint.place != (tenant_id, endpoint_id):
            raise PoisonRecord("misaddressed", "the record's key names something else")
        step.put_endpoint(endpoint)
        is_open = endpoint.closed_because is None
        if not is_open:
            step.park_rows_of(*endpoint.place)
        opened = is_open and (before is None or before.closed_because is not None)
        if opened or before is None or endpoint.filters != before.filters:
            step.wants_more(endpoint, record.timestamp, record.timestamp if opened else 0)


def _set(value: bytes, at: int, before: Endpoint | None) -> Endpoint:
    """The endpoint that a record sets, with what still holds of the endpoint before it."""
    if before is None:
        return made(value, at, None)
    endpoint = made(value, before.since, before.state)
    same_rate = endpoint.settings.rate == before.settings.rate
    endpoint = replace(endpoint, window=before.window, next_at=before.next_at if same_rate else 0.0)
    rotated = endpoint.record.body == before.record.body
    enabled = before.closed_because and endpoint.settings.enabled and not rotated
    moved = endpoint.settings.url != before.settings.url
    if enabled or moved:
        state = enabled_anew(endpoint.state, endpoint.record.updated_at)
        return replace(endpoint, state=state)
    return endpoint
