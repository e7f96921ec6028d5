"""Recoveries: the deliveries of an endpoint that were parked or dead are driven anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import orjson

from streams.api.decisions import Decision, decided_delivery, delivery_command
from streams.api.deliveries import table as deliveries
from streams.api.deliveries.table import RecoveryRange
from streams.api.endpoints.table import endpoint_state, recovery_json
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.remedy import put
from streams.api.rows.json_values import Json
from streams.api.tenants.guards import known_tenant, refuse_erased
from streams.api.tenants.writes import standing_endpoint
from streams.http.moments import rfc3339
from streams.serde import ids
from streams.serde.delivery_records import RECOVER, EndpointState, Recovery
from streams.serde.records import AuditEntry, TenantRecord
from streams.tenants.endpoints import endpoint_settings


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a recovery takes, in milliseconds; without `until`, what there was at its beginning."""

    since: int
    until: int | None
    statuses: tuple[str, ...]

    @classmethod
    def of(cls, begun: Recovery) -> Self:
        return cls(begun.since, begun.until, begun.statuses)

    def differs(self, selected: RecoveryRange) -> bool:
        """Return whether a recovery takes something else than is asked for."""
        until = self.until if selected.until is None else selected.until
        asked = (selected.since, until, selected.statuses)
        return (self.since, self.until, self.statuses) != asked


async def preview(state: AppState, selected: RecoveryRange) -> Json:
    """Count what a recovery would drive anew; refuse as `recover` does, unless it is disabled."""
    await _present(state, selected.tenant_id, selected.endpoint_id)
    matched = await state.query(lambda db: deliveries.count(db, selected))
    return {"dry_run": True, **matched.json(), **_asked(selected)}


async def recover(state: AppState, selected: RecoveryRange, key: str | None) -> Json:
    """Begin a recovery; the same key begins it once.

    Raises:
        Refusal: 404, the tenant is unknown; 409, it was erased, it has no such endpoint or a
            disabled one, or the key belongs to another recovery.
    """
    endpoint = await _present(state, selected.tenant_id, selected.endpoint_id)
    matched = await state.query(lambda db: deliveries.count(db, selected))
    await _require_enabled(state, endpoint)
    command_id = ids.recovery_command_id(selected.tenant_id, selected.endpoint_id, key)
    decision = await _decided(state, selected, command_id)
    begun = await _recovery(state, selected, command_id)
    taken = _taken(decision.entry) if begun is None else _Taken.of(begun)
    if taken is not None and taken.differs(selected):
        raise _key_reused(taken)
    return {
        "dry_run": False,
        **matched.json(),
        **_asked(selected),
        "recovery": None if begun is None else recovery_json(begun),
        **decision.json(),
    }


async def _decided(state: AppState, selected: RecoveryRange, command_id: str) -> Decision:
    """Send the command, which the delivery stage decides once however often it is sent."""
    command = delivery_command(
        state,
        command_id,
        selected.tenant_id,
        selected.endpoint_id,
        RECOVER,
        since=selected.since,
        until=selected.until,
        statuses=selected.statuses,
    )
    return await decided_delivery(state, command, "deliveries.endpoints")


async def _recovery(state: AppState, selected: RecoveryRange, command_id: str) -> Recovery | None:
    """Return the recovery that a command began, unless a later one of the endpoint is shown."""
    place = selected.tenant_id, selected.endpoint_id
    found = (await state.query(lambda db: endpoint_state(db, *place))).recovery
    return found if found is not None and found.command_id == command_id else None


def _taken(entry: AuditEntry | None) -> _Taken | None:
    """Return what a recovery took, of which the endpoint shows nothing any more."""
    if entry is None or entry.after is None:
        return None
    told = orjson.loads(entry.after)
    return _Taken(told["since"], told["until"], tuple(told["statuses"]))


def _key_reused(taken: _Taken) -> Refusal:
    """Tell which recovery has the key: `2h ago` is another time in each call."""
    until = "" if taken.until is None else f" until {rfc3339(taken.until)}"
    which = f"since {rfc3339(taken.since)}{until} of status {', '.join(taken.statuses)}"
    told = f"this key belongs to a recovery {which}: ask for that again, or send a new key"
    return Refusal(409, "key-reused", told)


def _asked(selected: RecoveryRange) -> Json:
    return {
        "tenant_id": selected.tenant_id,
        "endpoint_id": selected.endpoint_id,
        "since": rfc3339(selected.since),
        "until": rfc3339(selected.until),
        "statuses": list(selected.statuses),
    }


async def _present(state: AppState, tenant_id: str, name: str) -> TenantRecord:
    """Return the record of an endpoint, which may be disabled.

    Raises:
        Refusal: 404 the tenant is unknown; 409 it was erased, or it has no such endpoint.
    """
    await known_tenant(state, tenant_id)
    await refuse_erased(state, tenant_id)
    record = await standing_endpoint(state, tenant_id, name)
    if record is None:
        create = put("tenants", tenant_id, "endpoints", name)
        missing = f"tenant {tenant_id!r} has no endpoint {name!r}: create it with {create}"
        raise Refusal(409, "endpoint-missing", missing, remedy=create)
    return record


async def _require_enabled(state: AppState, record: TenantRecord) -> None:
    """Check that neither a person nor the delivery stage has disabled an endpoint.

    Raises:
        Refusal: 409, it is disabled.
    """
    found = await state.query(lambda db: endpoint_state(db, record.tenant_id, record.id))
    why = _disabled_because(record, found)
    if why is not None:
        enable = put("tenants", record.tenant_id, "endpoints", record.id, body='{"enabled":true}')
        raise Refusal(
            409,
            "endpoint-disabled",
            f"endpoint {record.id!r} is disabled ({why}): {enable} enables it, then recover it",
            remedy=enable,
        )


def _disabled_because(record: TenantRecord, state: EndpointState) -> str | None:
    settings = endpoint_settings(record)
    if not settings.enabled:
        return "by its settings"
    # A later PUT with enabled true enables an endpoint that the stage has disabled; a rotation or
    # a rewrapping writes its record too, and does not.
    return state.disabled_because if (state.disabled_at or 0) >= settings.set_at else None
