"""Calls on tokens: make one, list them, revoke one."""

from __future__ import annotations

from aiohttp import hdrs, web

from streams.access.permissions import ADMIN
from streams.api.serving.access import ACCESS
from streams.api.serving.call import NAMED, Calls, state_of
from streams.api.serving.listing import list_answer, page_query
from streams.api.serving.request_body import read_body
from streams.api.tokens.minting import known_grant, minted, revoked, seen_grants
from streams.api.tokens.shown import token_json, tokens_page
from streams.api.tokens.token_request import TokenRequest
from streams.process.wall_clock import wall_ms

calls = Calls()

_TOKEN = "/v1/tokens/{token_id}"  # noqa: S105  a path


@calls.post("/v1/tokens", of=NAMED, needs=ADMIN, verb="token.make", body=TokenRequest)
async def make_token(request: web.Request) -> web.Response:
    """Make a token within one's own rights; only this answer has its text."""
    access, wanted = request.app[ACCESS].authentication, await read_body(request, TokenRequest)
    grant, text = await minted(state_of(request), access, wanted)
    shown = token_json(access, grant, wall_ms())
    headers: dict[str, str] = {hdrs.CACHE_CONTROL: "no-store"}
    return web.json_response({**shown, "token": text}, status=201, headers=headers)


@calls.get("/v1/tokens", of=NAMED, needs=ADMIN)
async def list_tokens(request: web.Request) -> web.Response:
    """List the tokens within one's own rights, the newest first, ended ones too."""
    access, query = request.app[ACCESS].authentication, page_query(request, {})
    seen = seen_grants(state_of(request).principal, access)
    return list_answer("tokens", tokens_page(access, seen, query, wall_ms()))


@calls.get(_TOKEN, of=NAMED, needs=ADMIN)
async def get_token(request: web.Request) -> web.Response:
    """Show what a token grants."""
    access, principal = request.app[ACCESS].authentication, state_of(request).principal
    grant = known_grant(principal, access, request.match_info["token_id"])
    return web.json_response(token_json(access, grant, wall_ms()))


@calls.delete(_TOKEN, of=NAMED, needs=ADMIN, verb="token.revoke")
async def revoke_token(request: web.Request) -> web.Response:
    """Revoke a token: within a second no operator takes it, and its open streams end."""
    access = request.app[ACCESS].authentication
    grant = await revoked(state_of(request), access, request.match_info["token_id"])
    return web.json_response(token_json(access, grant, wall_ms()))
