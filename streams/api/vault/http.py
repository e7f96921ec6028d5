"""Calls on what the vault seals: rewrap all secrets, erase a tenant."""

from __future__ import annotations

from dataclasses import asdict

from aiohttp import web

from streams.access.permissions import ADMIN
from streams.api.serving.call import EVERY_TENANT, TENANT_IN_PATH, Calls, state_of
from streams.api.serving.listing import cursor_in
from streams.api.serving.request_body import read_body
from streams.api.tenants.guards import known_tenant
from streams.api.vault.erase_request import ErasureRequest
from streams.api.vault.erasure import erase
from streams.api.vault.rewrap import rewrap
from streams.api.vault.rewrap_request import RewrapRequest
from streams.http.moments import rfc3339

calls = Calls()


@calls.post(
    "/v1/vault/rewrap", of=EVERY_TENANT, needs=ADMIN, verb="vault.rewrap", body=RewrapRequest
)
async def rewrap_all(request: web.Request) -> web.Response:
    """Seal all data keys and secrets again, under the first key-encryption key."""
    wanted = await read_body(request, RewrapRequest)
    done, behind = await rewrap(state_of(request), cursor_in(wanted.cursor), wanted.limit)
    cursor = None if behind is None else str(behind)
    return web.json_response({**asdict(done), "next_cursor": cursor})


@calls.post(
    "/v1/tenants/{tenant_id}/erase",
    of=TENANT_IN_PATH,
    needs=ADMIN,
    verb="tenant.erase",
    body=ErasureRequest,
)
async def erase_tenant(request: web.Request) -> web.Response:
    """Destroy a tenant's data keys and secrets for ever, so that nothing opens its bodies."""
    state, tenant_id = state_of(request), request.match_info["tenant_id"]
    wanted = await read_body(request, ErasureRequest)
    await known_tenant(state, tenant_id)
    erasure = await erase(state, tenant_id, wanted.note)
    return web.json_response(
        {
            "tenant_id": tenant_id,
            "note": erasure.note,
            "erased_at": rfc3339(erasure.at),
            "data_keys": erasure.data_keys,
            "sources": erasure.sources,
            "endpoints": erasure.endpoints,
        }
    )
