"""Calls on tenants and their sources; each change is a record on `tenants`."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from streams.api.endpoints.destinations import check_target, set_up_callbacks
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal, invalid, unknown
from streams.api.rows.paging import Page
from streams.api.serving.listing import list_answer, page_query
from streams.api.serving.request_body import name_in, read_body
from streams.api.serving.state import STATE
from streams.api.sources.source_request import RotateRequest, SourceRequest
from streams.api.tenants import table as tenants
from streams.api.tenants.guards import known_tenant
from streams.api.tenants.table import source_json
from streams.api.tenants.writes import changing, newest, with_newest, written
from streams.process.wall_clock import wall_ms
from streams.serde.records import SigningKey, TenantRecord
from streams.tenants.limits import shared_names
from streams.tenants.settings import TenantSettings, source_record, source_settings
from streams.tenants.source_keys import holds, signing_key

routes = web.RouteTableDef()

TENANT = "/v1/tenants/{tenant_id}"
SOURCE = TENANT + "/sources/{source}"


@routes.put(TENANT)
async def put_tenant(request: web.Request) -> web.Response:
    """Create a tenant, or replace its settings and enable it."""
    tenant_id = name_in(request, "tenant_id")
    settings = await read_body(request, TenantSettings)
    for name in shared_names(settings.limits, request.app[STATE].topology.limits):
        counts = "the topology's limit of this name counts all tenants together"
        raise invalid("limits", f"{name}: {counts}: give yours another name")
    body = settings.model_dump_json()
    async with changing(request.app[STATE], tenant_id):
        record = TenantRecord(tenant_id, "tenant", "", False, body, updated_at=wall_ms())
        return await _set_tenant(request.app[STATE], record)


@routes.get("/v1/tenants")
async def list_tenants(request: web.Request) -> web.Response:
    """List tenants by id, disabled and erased ones too."""
    query = page_query(request, {})
    page = await request.app[STATE].query(lambda db: tenants.tenants_page(db, query))
    return list_answer("tenants", page)


@routes.get(TENANT)
async def get_tenant(request: web.Request) -> web.Response:
    """Show a tenant and the names of its sources."""
    state = request.app[STATE]
    record = await known_tenant(state, request.match_info["tenant_id"])
    return await _tenant_answer(state, record)


@routes.delete(TENANT)
async def disable_tenant(request: web.Request) -> web.Response:
    """Disable a tenant: its hooks and submissions are refused, its data stays."""
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
    async with changing(state, tenant_id):
        shown = await known_tenant(state, tenant_id)
        record = await newest(state, (tenant_id, "tenant", "")) or shown
        return await _set_tenant(state, replace(record, disabled=True, updated_at=wall_ms()))


@routes.put(SOURCE)
async def put_source(request: web.Request) -> web.Response:
    """Create or replace a source and its signing secret; see `SourceRequest`."""
    state = request.app[STATE]
    tenant_id, name = name_in(request, "tenant_id"), name_in(request, "source")
    wanted = await read_body(request, SourceRequest)
    secrets = [wanted.new_secret(wanted.scheme)] if wanted.has_secret else []
    if wanted.callback_url is not None:
        await check_target(state, "callback_url", wanted.callback_url)
    async with changing(state, tenant_id):
        await known_tenant(state, tenant_id)
        settings, now = wanted.settings(), wall_ms()
        record = source_record(state.vault, tenant_id, name, settings, secrets, now)
        if not secrets:
            record = replace(record, keys=await _kept_keys(state, record, settings.scheme, now))
        if settings.callback_url is not None:
            await set_up_callbacks(state, tenant_id)
        return await _set_source(state, record)


@routes.post(SOURCE + "/rotate")
async def rotate_secret(request: web.Request) -> web.Response:
    """Set a source's new secret; the old one verifies until the overlap is over."""
    state = request.app[STATE]
    wanted = await read_body(request, RotateRequest)
    async with changing(state, request.match_info["tenant_id"]):
        record = await known_source(request)
        return await _set_source(state, _rotated(state, record, wanted, wall_ms()))


@routes.get(TENANT + "/sources")
async def list_sources(request: web.Request) -> web.Response:
    """List a tenant's sources by name, disabled ones too."""
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
    await known_tenant(state, tenant_id)
    found, now = await state.query(lambda db: tenants.sources(db, tenant_id)), wall_ms()
    shown = tuple(source_json(found[name], now) for name in sorted(found))
    return list_answer("sources", Page(shown))


@routes.get("/v1/sources")
async def list_all_sources(request: web.Request) -> web.Response:
    """List the sources of all tenants by tenant and name, disabled ones too."""
    query, now = page_query(request, {}), wall_ms()
    page = await request.app[STATE].query(lambda db: tenants.sources_page(db, query, now))
    return list_answer("sources", page)


@routes.get(SOURCE)
async def get_source(request: web.Request) -> web.Response:
    """Show a source, how many secrets it has, and until when the old ones verify."""
    return _source_answer(await known_source(request))


@routes.delete(SOURCE)
async def disable_source(request: web.Request) -> web.Response:
    """Disable a source and delete its secrets; a PUT sets it up again."""
    state = request.app[STATE]
    async with changing(state, request.match_info["tenant_id"]):
        record = await known_source(request)
        gone = replace(record, disabled=True, secrets=(), keys=(), updated_at=wall_ms())
        return await _set_source(state, gone)


async def known_source(request: web.Request) -> TenantRecord:
    """Return the source that the request's path names.

    Raises:
        Refusal: 404, there is none.
    """
    tenant_id, name = request.match_info["tenant_id"], request.match_info["source"]
    record = await newest(request.app[STATE], (tenant_id, "source", name))
    if record is None:
        where = f"/v1/tenants/{tenant_id}/sources/{name}"
        raise unknown("source", name, f"create it with PUT {where}")
    return record


def require_secret(record: TenantRecord) -> None:
    """Check that a source has a secret.

    Raises:
        Refusal: 409, it is disabled.
    """
    if record.disabled:
        where = f"/v1/tenants/{record.tenant_id}/sources/{record.id}"
        enable = f"enable it with PUT {where}"
        raise Refusal(409, "source-disabled", f"a disabled source has no secret: {enable}")


async def _kept_keys(
    state: AppState, record: TenantRecord, scheme: str, now: int
) -> tuple[SigningKey, ...]:
    """Return the keys under which a source verifies now, for its new settings.

    Raises:
        Refusal: 422, none fits: the source is new, disabled, or of another scheme.
    """
    before = await newest(state, (record.tenant_id, "source", record.id))
    if before is None or before.disabled or source_settings(before).scheme != scheme:
        only = "only a live source of the same scheme keeps its own"
        raise invalid("body", f"give exactly one of secret and secret_ref: {only}")
    return tuple(key for key in before.keys if holds(key, now))


def _rotated(
    state: AppState, record: TenantRecord, wanted: RotateRequest, now: int
) -> TenantRecord:
    require_secret(record)
    secret = wanted.new_secret(source_settings(record).scheme)
    newest = signing_key(state.vault, record.tenant_id, record.id, secret)
    keys = with_newest(record.keys, newest, wanted.overlap_seconds, now)
    return replace(record, secrets=(), keys=keys, updated_at=now)


async def _set_source(state: AppState, record: TenantRecord) -> web.Response:
    return _source_answer(await written(state, record))


def _source_answer(record: TenantRecord) -> web.Response:
    return web.json_response(source_json(record, wall_ms()))


async def _set_tenant(state: AppState, record: TenantRecord) -> web.Response:
    return await _tenant_answer(state, await written(state, record))


async def _tenant_answer(state: AppState, record: TenantRecord) -> web.Response:
    return web.json_response(await state.query(lambda db: tenants.shown_tenant(db, record)))
