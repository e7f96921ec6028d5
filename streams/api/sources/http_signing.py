"""The call that signs a delivery as a source's vendor would."""

from __future__ import annotations

from aiohttp import web

from streams.access.permissions import SECRETS
from streams.api.serving.call import TENANT_IN_PATH, Calls, state_of
from streams.api.serving.request_body import read_body
from streams.api.sources.http import SOURCE
from streams.api.sources.sign_request import SignRequest
from streams.api.sources.signing import signed

calls = Calls()

MAX_SIGNED_BYTES = 36 * 1024 * 1024
"""Of the request: the largest body that a source takes, 25 MiB, in base64."""


@calls.post(SOURCE + "/sign", of=TENANT_IN_PATH, needs=SECRETS, verb="source.sign")
async def sign_delivery(request: web.Request) -> web.Response:
    """Sign a delivery under the source's newest secret; see `SignRequest`."""
    state, path = state_of(request), request.match_info
    wanted = await read_body(request.clone(client_max_size=MAX_SIGNED_BYTES), SignRequest)
    return web.json_response(await signed(state, path["tenant_id"], path["source"], wanted))
