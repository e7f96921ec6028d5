"""Changes of a tenant's outgoing endpoints; each is a record on `tenants`."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from streams.access.permissions import SECRETS
from streams.api.endpoints.destinations import check_target
from streams.api.endpoints.endpoint_request import EndpointRequest, EndpointRotation
from streams.api.endpoints.table import endpoints_count, shown_endpoint
from streams.api.new_secret import NewSecret
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.remedy import put
from streams.api.rights import require_may_refer, require_permission
from streams.api.rows.json_values import Json
from streams.api.tenants.guards import known_tenant
from streams.api.tenants.writes import changing, removed, standing_endpoint, with_newest, written
from streams.delivery.message.signing import check_signing_secret, new_secret
from streams.errors import VaultError
from streams.process.wall_clock import wall_ms
from streams.serde.records import TenantRecord
from streams.tenants.endpoints import (
    endpoint_headers,
    endpoint_key,
    endpoint_record,
    endpoint_settings,
)
from streams.tenants.source_keys import Secret, holds

MOST_ENDPOINTS = 1_000
"""Of one tenant: the delivery stage keeps all in memory, and makes a row for each that an event
concerns."""


async def put_endpoint(state: AppState, tenant_id: str, name: str, wanted: EndpointRequest) -> Json:
    """Create or replace an endpoint. A secret that is made here is in the answer, and in no other.

    Raises:
        Refusal: 403, the caller may not name a reference, or send the kept headers elsewhere; 404,
            the tenant is unknown; 409, it was erased, or has too many endpoints; 422, no request
            is sent to the URL.
    """
    wanted.settings(name, 0)  # a body that is wrong anyway is not looked up
    require_may_refer(state.principal, wanted.secret_ref)
    if wanted.url is not None:
        await check_target(state, "url", wanted.url)
    async with changing(state, tenant_id):
        await known_tenant(state, tenant_id)
        before = await standing_endpoint(state, tenant_id, name)
        if before is None:
            await _refuse_too_many(state, tenant_id)
        record = _wanted(state, before, wanted, tenant_id, name)
        if before is not None and not wanted.has_secret:
            _require_may_send_headers(state, before, wanted)
            return await _set(state, record, None)
        require_permission(state.principal, SECRETS)
        secret, made = _chosen(wanted)
        key = endpoint_key(state.vault, tenant_id, name, secret)
        return await _set(state, replace(record, keys=(key,)), made)


async def rotate(state: AppState, tenant_id: str, name: str, wanted: EndpointRotation) -> Json:
    """Give an endpoint a new key; the old one signs beside it until the overlap is over.

    Raises:
        Refusal: 403, the caller may name no reference; 404, there is no such endpoint; 409, too
            many keys are in use.
    """
    require_may_refer(state.principal, wanted.secret_ref)
    async with changing(state, tenant_id):
        record, now = await known_endpoint(state, tenant_id, name), wall_ms()
        secret, made = _chosen(wanted)
        key = endpoint_key(state.vault, record.tenant_id, record.id, secret)
        keys = with_newest(record.keys, key, wanted.overlap_seconds, now)
        return await _set(state, replace(record, keys=keys, updated_at=now), made)


async def remove(state: AppState, tenant_id: str, name: str) -> Json:
    """Delete an endpoint with its keys; what was not delivered yet is parked.

    Raises:
        Refusal: 404, there is no such endpoint.
    """
    async with changing(state, tenant_id):
        record = await known_endpoint(state, tenant_id, name)
        await removed(state, record)
    return {"tenant_id": record.tenant_id, "endpoint_id": record.id, "removed": True}


async def show(state: AppState, tenant_id: str, name: str) -> Json:
    """Return an endpoint, its keys without their secrets, and the names of its headers."""
    return await _shown(state, await known_endpoint(state, tenant_id, name))


async def known_endpoint(state: AppState, tenant_id: str, name: str) -> TenantRecord:
    """Return the endpoint that a call names.

    Raises:
        Refusal: 404, there is none.
    """
    record = await standing_endpoint(state, tenant_id, name)
    if record is None:
        create = put("tenants", tenant_id, "endpoints", name)
        raise unknown("endpoint", name, f"create it with {create}", create)
    return record


def _wanted(
    state: AppState, before: TenantRecord | None, wanted: EndpointRequest, tenant_id: str, name: str
) -> TenantRecord:
    """Return the record of the wanted settings, with the keys that the endpoint has now."""
    now = wall_ms()
    created_at = now if before is None else endpoint_settings(before).created_at
    headers = wanted.merged_headers(_headers(state, before) if wanted.keeps_headers else {})
    settings = wanted.settings(name, created_at).model_copy(update={"set_at": now})
    keys = () if before is None else tuple(key for key in before.keys if holds(key, now))
    return endpoint_record(state.vault, tenant_id, name, settings, keys, headers, now)


def _require_may_send_headers(
    state: AppState, before: TenantRecord, wanted: EndpointRequest
) -> None:
    """Check that the caller may have the endpoint's headers sent where its URL leads now.

    They may be credentials, which are shown to nobody: whoever moves the URL to a server of their
    own would read them there.

    Raises:
        Refusal: 403, they would go to another server, and the caller may not see secrets.
    """
    is_elsewhere = _server(endpoint_settings(before).url) != _server(wanted.url)
    if is_elsewhere and wanted.keeps_headers and _headers(state, before):
        require_permission(state.principal, SECRETS)


def _server(url: str | None) -> tuple[str, ...]:
    """Return the scheme, host and port of a URL."""
    return tuple(part.lower() for part in urlsplit(url or "")[:2])


async def _refuse_too_many(state: AppState, tenant_id: str) -> None:
    if await state.query(lambda db: endpoints_count(db, tenant_id)) >= MOST_ENDPOINTS:
        raise Refusal(
            409,
            "too-many-endpoints",
            f"tenant {tenant_id!r} has {MOST_ENDPOINTS} endpoints: remove one, or let one receiver "
            "pass on what several need",
        )


def _headers(state: AppState, before: TenantRecord | None) -> dict[str, str]:
    if before is None:
        return {}
    try:
        return endpoint_headers(state.vault, before)
    except VaultError as error:
        raise Refusal(
            409, "cannot-open", f"the headers cannot be opened ({error}): give all of them anew"
        ) from None


def _chosen(wanted: NewSecret) -> tuple[Secret, str | None]:
    """Return the given secret, or one that is made here, and that again as it is shown."""
    if wanted.has_secret:
        return wanted.checked(check_signing_secret), None
    made = new_secret()
    return made.encode(), made


async def _set(state: AppState, record: TenantRecord, made: str | None) -> Json:
    shown = await _shown(state, await written(state, record, late=made is not None))
    return shown if made is None else {**shown, "secret": made}


async def _shown(state: AppState, record: TenantRecord) -> Json:
    return await state.query(lambda db: shown_endpoint(db, record, state.vault, wall_ms()))
