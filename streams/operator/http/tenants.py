"""Calls on tenants and their sources; each change is a record on `tenants`."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp import web

from streams.operator.http.app_state import STATE, AppState, not_shown, replacing
from streams.operator.http.listing import list_answer, page_query
from streams.operator.http.refusal import Refusal, invalid, unknown
from streams.operator.http.request_body import read_body
from streams.operator.http.source_request import RotateRequest, SourceRequest
from streams.operator.resources import tenants
from streams.operator.resources.json_values import rfc3339
from streams.operator.resources.paging import Page
from streams.operator.resources.table import Row
from streams.operator.resources.tenants import source_json
from streams.operator.tenant_guards import known_tenant, refuse_erased
from streams.process.wall_clock import wall_ms
from streams.serde.records import SigningKey, TenantRecord
from streams.tenants.settings import NAME, TenantSettings, source_record, source_settings
from streams.tenants.source_keys import MOST_KEYS, holds, keys_of, rotated, signing_key

routes = web.RouteTableDef()

_TENANT = "/v1/tenants/{tenant_id}"
SOURCE = _TENANT + "/sources/{source}"


@routes.put(_TENANT)
async def put_tenant(request: web.Request) -> web.Response:
    """Create a tenant, or replace its settings and enable it."""
    tenant_id = _name(request, "tenant_id")
    settings = await read_body(request, TenantSettings)
    body = settings.model_dump_json()
    async with _changing(request.app[STATE], tenant_id):
        record = TenantRecord(tenant_id, "tenant", "", False, body, updated_at=wall_ms())
        return await _set_tenant(request.app[STATE], record)


@routes.get("/v1/tenants")
async def list_tenants(request: web.Request) -> web.Response:
    """List tenants by id, disabled and erased ones too."""
    query = page_query(request, {})
    page = await request.app[STATE].query(lambda db: tenants.tenants_page(db, query))
    return list_answer("tenants", page)


@routes.get(_TENANT)
async def get_tenant(request: web.Request) -> web.Response:
    """Show a tenant and the names of its sources."""
    state = request.app[STATE]
    record = await known_tenant(state, request.match_info["tenant_id"])
    return await _tenant_answer(state, record)


@routes.delete(_TENANT)
async def disable_tenant(request: web.Request) -> web.Response:
    """Disable a tenant: its hooks and submissions are refused, its data stays."""
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
    async with _changing(state, tenant_id):
        shown = await known_tenant(state, tenant_id)
        record = state.newest((tenant_id, "tenant", ""), shown) or shown
        return await _set_tenant(state, replace(record, disabled=True, updated_at=wall_ms()))


@routes.put(SOURCE)
async def put_source(request: web.Request) -> web.Response:
    """Create or replace a source and its signing secret; see `SourceRequest`."""
    state = request.app[STATE]
    tenant_id, name = _name(request, "tenant_id"), _name(request, "source")
    wanted = await read_body(request, SourceRequest)
    secrets = [wanted.new_secret(wanted.scheme)] if wanted.has_secret else []
    async with _changing(state, tenant_id):
        await known_tenant(state, tenant_id)
        settings, now = wanted.settings(), wall_ms()
        record = source_record(state.vault, tenant_id, name, settings, secrets, now)
        if not secrets:
            record = replace(record, keys=await _kept_keys(state, record, settings.scheme, now))
        return await _set_source(state, record)


@routes.post(SOURCE + "/rotate")
async def rotate_secret(request: web.Request) -> web.Response:
    """Set a source's new secret; the old one verifies until the overlap is over."""
    state = request.app[STATE]
    wanted = await read_body(request, RotateRequest)
    async with _changing(state, request.match_info["tenant_id"]):
        record = await known_source(request)
        return await _set_source(state, _rotated(state, record, wanted, wall_ms()))


@routes.get(_TENANT + "/sources")
async def list_sources(request: web.Request) -> web.Response:
    """List a tenant's sources by name, disabled ones too."""
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
    await known_tenant(state, tenant_id)
    found, now = await state.query(lambda db: tenants.sources(db, tenant_id)), wall_ms()
    shown = tuple(source_json(found[name], now) for name in sorted(found))
    return list_answer("sources", Page(shown))


@routes.get(SOURCE)
async def get_source(request: web.Request) -> web.Response:
    """Show a source, how many secrets it has, and until when the old ones verify."""
    return _source_answer(await known_source(request))


@routes.delete(SOURCE)
async def disable_source(request: web.Request) -> web.Response:
    """Disable a source and delete its secrets; a PUT sets it up again."""
    state = request.app[STATE]
    async with _changing(state, request.match_info["tenant_id"]):
        record = await known_source(request)
        gone = replace(record, disabled=True, secrets=(), keys=(), updated_at=wall_ms())
        return await _set_source(state, gone)


async def known_source(request: web.Request) -> TenantRecord:
    """Return the source that the request's path names.

    Raises:
        Refusal: 404, there is none.
    """
    tenant_id, name = request.match_info["tenant_id"], request.match_info["source"]
    record = await _newest(request.app[STATE], (tenant_id, "source", name))
    if record is None:
        where = f"/v1/tenants/{tenant_id}/sources/{name}"
        raise unknown("source", name, f"create it with PUT {where}")
    return record


async def _kept_keys(
    state: AppState, record: TenantRecord, scheme: str, now: int
) -> tuple[SigningKey, ...]:
    """Return the keys under which a source verifies now, for its new settings.

    Raises:
        Refusal: 422, none fits: the source is new, disabled, or of another scheme.
    """
    before = await _newest(state, (record.tenant_id, "source", record.id))
    if before is None or before.disabled or source_settings(before).scheme != scheme:
        only = "only a live source of the same scheme keeps its own"
        raise invalid([("body", f"give exactly one of secret and secret_ref: {only}")])
    return tuple(key for key in keys_of(before) if holds(key, now))


def _rotated(
    state: AppState, record: TenantRecord, wanted: RotateRequest, now: int
) -> TenantRecord:
    if record.disabled:
        where = f"/v1/tenants/{record.tenant_id}/sources/{record.id}"
        raise Refusal(409, "source-disabled", f"a disabled source has no secret: PUT {where}")
    secret = wanted.new_secret(source_settings(record).scheme)
    newest = signing_key(state.vault, record.tenant_id, record.id, secret)
    until = now + round(wanted.overlap_seconds * 1000)
    keys = rotated(keys_of(record), newest, until, now)
    if len(keys) > MOST_KEYS:
        until_when = min(key.until for key in keys if key.until is not None)
        raise Refusal(
            409, "too-many-secrets",
            f"{MOST_KEYS} secrets verify already: the next one ends at {rfc3339(until_when)}; "
            "rotate after that, or PUT the source to end all at once",
        )  # fmt: skip
    return replace(record, secrets=(), keys=keys, updated_at=now)


async def _newest(state: AppState, key: Row) -> TenantRecord | None:
    return state.newest(key, await state.query(lambda db: tenants.setting(db, *key)))


async def _set_source(state: AppState, record: TenantRecord) -> web.Response:
    return _source_answer(await _write(state, record))


def _source_answer(record: TenantRecord) -> web.Response:
    return web.json_response(source_json(record, wall_ms()))


async def _set_tenant(state: AppState, record: TenantRecord) -> web.Response:
    return await _tenant_answer(state, await _write(state, record))


async def _tenant_answer(state: AppState, record: TenantRecord) -> web.Response:
    return web.json_response(await state.query(lambda db: tenants.shown_tenant(db, record)))


@asynccontextmanager
async def _changing(state: AppState, tenant_id: str) -> AsyncIterator[None]:
    """Hold the lock from the read to the write. Otherwise one of two concurrent rotations would be
    lost, and a write that read before an erasure would bring back what the erasure destroyed.

    Raises:
        Refusal: 409, the tenant was erased.
    """
    async with state.tenant_writes:
        await refuse_erased(state, tenant_id)
        yield


async def _write(state: AppState, record: TenantRecord) -> TenantRecord:
    """Write a record; return it, or the later one of another call, as the read model shows it.

    Raises:
        Refusal: 503, the read model is late: send the call again.
    """
    key = (record.tenant_id, record.kind, record.id)
    record = replacing(await _newest(state, key), record)

    def shown(connection: sqlite3.Connection) -> TenantRecord | None:
        found = tenants.setting(connection, *key)
        return found if found is not None and found.updated_at >= record.updated_at else None

    await state.set_tenant(key, record)
    state.unshown[key] = record
    found = await state.wait_for(("tenants", key), shown)
    if found is None:
        raise not_shown()
    del state.unshown[key]
    return found


def _name(request: web.Request, part: str) -> str:
    name = request.match_info[part]
    if not NAME.fullmatch(name):
        raise invalid(
            [
                (
                    part,
                    f"{name!r} is no name: use 1 to 64 letters, digits, `_`, `.` and "
                    "`-`, beginning with a letter or digit",
                )
            ]
        )
    return name
