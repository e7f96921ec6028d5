"""Calls on tokens: make one, show one, revoke one."""

from __future__ import annotations

from aiohttp import hdrs, web

from streams.access.permissions import ADMIN
from streams.api.serving.call import NAMED, Calls, state_of
from streams.api.serving.idempotency import idempotency_key
from streams.api.serving.request_body import read_body
from streams.api.tokens.minting import known_grant, minted, revoked
from streams.api.tokens.table import token_json
from streams.api.tokens.token_request import TokenRequest
from streams.process.wall_clock import wall_ms

calls = Calls()

_TOKEN = "/v1/tokens/{token_id}"  # noqa: S105  a path


@calls.post("/v1/tokens", of=NAMED, needs=ADMIN, verb="token.make", body=TokenRequest)
async def make_token(request: web.Request) -> web.Response:
    """Make a token within one's own rights; only this answer has its text.

    The same key makes one token: a repetition is refused, with its id.
    """
    state, key = state_of(request), idempotency_key(request)
    wanted = await read_body(request, TokenRequest)
    grant, text = await minted(state, state.authentication, wanted, key)
    shown = token_json(state.authentication, grant, wall_ms())
    headers: dict[str, str] = {hdrs.CACHE_CONTROL: "no-store"}
    return web.json_response({**shown, "token": text}, status=201, headers=headers)


@calls.get(_TOKEN, of=NAMED, needs=ADMIN)
async def get_token(request: web.Request) -> web.Response:
    """Show what a token grants."""
    state = state_of(request)
    grant = known_grant(state.principal, state.authentication, request.match_info["token_id"])
    return web.json_response(token_json(state.authentication, grant, wall_ms()))


@calls.delete(_TOKEN, of=NAMED, needs=ADMIN, verb="token.revoke")
async def revoke_token(request: web.Request) -> web.Response:
    """Revoke a token: within a second no operator takes it, and its open streams end."""
    state = state_of(request)
    grant = await revoked(state, state.authentication, request.match_info["token_id"])
    return web.json_response(token_json(state.authentication, grant, wall_ms()))
