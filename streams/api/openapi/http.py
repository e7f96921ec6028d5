"""The call that answers what all calls are."""

from __future__ import annotations

from aiohttp import hdrs, web

from streams.access.permissions import READ
from streams.api.openapi.shipped import document, version
from streams.api.serving.call import SHARED, Calls

calls = Calls()


@calls.get("/v1/openapi.json", of=SHARED, needs=READ)
async def get_document(request: web.Request) -> web.Response:
    """Answer the API as an OpenAPI 3.1 document; 304 if the caller has it already."""
    headers: dict[str, str] = {hdrs.ETAG: f'"{version()}"', hdrs.CACHE_CONTROL: "no-cache"}
    if any(tag.value in (version(), "*") for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(body=document(), content_type="application/json", headers=headers)
