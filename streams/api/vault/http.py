"""Calls on what the vault seals: rewrap all secrets, erase a tenant."""

from __future__ import annotations

from dataclasses import asdict

from aiohttp import web

from streams.api.serving.request_body import read_body
from streams.api.serving.state import STATE
from streams.api.tenants.guards import known_tenant
from streams.api.vault.erase_request import ErasureRequest
from streams.api.vault.erasure import erase
from streams.api.vault.rewrap import rewrap
from streams.http.moments import rfc3339

routes = web.RouteTableDef()


@routes.post("/v1/vault/rewrap")
async def rewrap_all(request: web.Request) -> web.Response:
    """Seal all data keys and secrets again, under the first key-encryption key."""
    return web.json_response(asdict(await rewrap(request.app[STATE])))


@routes.post("/v1/tenants/{tenant_id}/erase")
async def erase_tenant(request: web.Request) -> web.Response:
    """Destroy a tenant's data keys and secrets for ever, so that nothing opens its bodies."""
    state, tenant_id = request.app[STATE], request.match_info["tenant_id"]
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
