"""Calls on a tenant's outgoing endpoints; each change is a record on `tenants`."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from streams.api.endpoints.destinations import check_target
from streams.api.endpoints.endpoint_request import EndpointRequest, EndpointRotation
from streams.api.endpoints.table import endpoints_count, endpoints_page, shown_endpoint
from streams.api.new_secret import NewSecret
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, unknown
from streams.api.serving.listing import list_answer, page_query
from streams.api.serving.request_body import name_in, read_body
from streams.api.serving.state import STATE
from streams.api.tenants.guards import known_tenant
from streams.api.tenants.http import TENANT
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

routes = web.RouteTableDef()

ENDPOINT = TENANT + "/endpoints/{endpoint}"
MOST_ENDPOINTS = 1_000
"""Of one tenant: the delivery stage keeps all in memory, and makes a row for each that an event
concerns."""


@routes.put(ENDPOINT)
async def put_endpoint(request: web.Request) -> web.Response:
    """Create or replace an endpoint; see `EndpointRequest`. A secret made here is shown here."""
    state = request.app[STATE]
    tenant_id, name = name_in(request, "tenant_id"), name_in(request, "endpoint")
    wanted = await read_body(request, EndpointRequest)
    wanted.settings(name, 0)  # a body that is wrong anyway is not looked up
    if wanted.url is not None:
        await check_target(state, "url", wanted.url)
    async with changing(state, tenant_id):
        await known_tenant(state, tenant_id)
        before = await standing_endpoint(state, tenant_id, name)
        if before is None:
            await _refuse_too_many(state, tenant_id)
        record = _wanted(state, before, wanted, tenant_id, name)
        if before is not None and not wanted.has_secret:
            return await _set(state, record, None)
        secret, made = _chosen(wanted)
        key = endpoint_key(state.vault, tenant_id, name, secret)
        return await _set(state, replace(record, keys=(key,)), made)


@routes.post(ENDPOINT + "/rotate")
async def rotate_key(request: web.Request) -> web.Response:
    """Give an endpoint a new key; the old one signs beside it until the overlap is over."""
    state = request.app[STATE]
    wanted = await read_body(request, EndpointRotation)
    async with changing(state, request.match_info["tenant_id"]):
        record, now = await known_endpoint(request), wall_ms()
        secret, made = _chosen(wanted)
        key = endpoint_key(state.vault, record.tenant_id, record.id, secret)
        keys = with_newest(record.keys, key, wanted.overlap_seconds, now)
        return await _set(state, replace(record, keys=keys, updated_at=now), made)


@routes.get("/v1/endpoints")
@routes.get(TENANT + "/endpoints")
async def list_endpoints(request: web.Request) -> web.Response:
    """List the endpoints of a tenant, or of all, by tenant and id."""
    state, tenant_id = request.app[STATE], request.match_info.get("tenant_id")
    query = page_query(request, {})
    if tenant_id is not None:
        await known_tenant(state, tenant_id)
    page = await state.query(
        lambda db: endpoints_page(db, tenant_id, query, state.vault, wall_ms())
    )
    return list_answer("endpoints", page)


@routes.get(ENDPOINT)
async def get_endpoint(request: web.Request) -> web.Response:
    """Show an endpoint, its keys without their secrets, and the names of its headers."""
    return await _answer(request.app[STATE], await known_endpoint(request), None)


@routes.delete(ENDPOINT)
async def remove_endpoint(request: web.Request) -> web.Response:
    """Delete an endpoint with its keys; what was not delivered yet is parked."""
    state = request.app[STATE]
    async with changing(state, request.match_info["tenant_id"]):
        record = await known_endpoint(request)
        await removed(state, record)
    return web.json_response(
        {"tenant_id": record.tenant_id, "endpoint_id": record.id, "removed": True}
    )


async def known_endpoint(request: web.Request) -> TenantRecord:
    """Return the endpoint that the request's path names.

    Raises:
        Refusal: 404, there is none.
    """
    tenant_id, name = request.match_info["tenant_id"], request.match_info["endpoint"]
    record = await standing_endpoint(request.app[STATE], tenant_id, name)
    if record is None:
        where = f"/v1/tenants/{tenant_id}/endpoints/{name}"
        raise unknown("endpoint", name, f"create it with PUT {where}")
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


async def _set(state: AppState, record: TenantRecord, made: str | None) -> web.Response:
    return await _answer(state, await written(state, record, late=made is not None), made)


async def _answer(state: AppState, record: TenantRecord, made: str | None) -> web.Response:
    shown = await state.query(lambda db: shown_endpoint(db, record, state.vault, wall_ms()))
    return web.json_response(shown if made is None else {**shown, "secret": made})
