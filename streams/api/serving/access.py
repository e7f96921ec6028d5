"""Tells who makes each call, and refuses it with 401 if that is nobody who is known."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from streams.access.authentication import Authentication, Denied
from streams.access.failures import Failures
from streams.access.failures import address_of as address_of_peer
from streams.access.permissions import READ
from streams.access.principal import Principal
from streams.access.tokens import parse
from streams.api.live.http import ticket_holder
from streams.api.live.tickets import Tickets
from streams.api.refusal import Refusal
from streams.api.schemas.http import ROOTS
from streams.api.serving import pages
from streams.api.serving.call import OPEN, PRINCIPAL, READS, STANDS, call_of, request_id
from streams.api.serving.problems import refused
from streams.api.serving.session import SESSION, person, stands
from streams.api.serving.state import STATE
from streams.http.problem import problem
from streams.serde.records import Call

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""They need no token and no read model, and neither do pages. Schemas need no read model, and a
token if it is set so."""

_ANYBODY = Principal("anybody", "anybody", "none", frozenset({READ}), frozenset())
"""Who reads schemas without a token."""

_DETAILS = {
    "missing": "send a token as `Authorization: Bearer TOKEN`",
    "unknown": "the token sent is not known here: send the admin token, or one that "
    "`tidegate tokens create` made",
    "expired": "the token sent has expired: make another one",
    "revoked": "the token sent is revoked: make another one",
}


@dataclass(frozen=True, slots=True)
class Access:
    """What tells who calls. `is_known` is whether all tokens are known to this process yet."""

    authentication: Authentication
    tickets: Tickets
    open_schemas: bool
    is_known: Callable[[], bool] = lambda: True
    failures: Failures = field(default_factory=lambda: Failures(time.monotonic))


ACCESS: web.AppKey[Access] = web.AppKey("access", Access)


def authenticated(access: Access) -> Middleware:
    """Refuse calls of nobody who is known; all others have their principal."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if is_open(request):
            return await handler(request)
        found = await person(request) or _caller(access, request)
        if not isinstance(found, Principal):
            await _tell_ended(access, request)
            return found
        request[PRINCIPAL] = found
        request[STANDS] = _stands(access, request, found)
        return await handler(request)

    return check


async def _tell_ended(access: Access, request: web.Request) -> None:
    """Write the attempt of a token that has ended; of all others nobody knows whose they are."""
    given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")[2].strip()
    token = parse(given)
    found = None if token is None else access.authentication.of_token(given)
    grant = None if token is None else access.authentication.book.grant(token.id)
    if grant is None or not isinstance(found, Denied) or found.reason == "unknown":
        return
    call = call_of(request.match_info.handler)
    verb = READS if call is None else call.verb or READS
    asked = Call(grant.principal_id, grant.role, request_id(request))
    await request.app[STATE].refused(
        asked, verb, request.path, f"token-{found.reason}", _DETAILS[found.reason]
    )


def is_open(request: web.Request) -> bool:
    """Return whether a call needs no token, whatever is set."""
    if request.path in OPEN_PATHS or request.path.startswith(pages.ROOTS):
        return True
    call = call_of(request.match_info.handler)
    return call is not None and call.of is OPEN


def is_of_schemas(request: web.Request) -> bool:
    """Return whether a path is of the schema registry."""
    return request.path.startswith(ROOTS)


async def caller_if_known(request: web.Request) -> Principal | None:
    """Return who makes an open call; None for somebody who is not known, or not any more."""
    if hdrs.AUTHORIZATION in request.headers:
        found = _by_header(request.app[ACCESS], request)
        return found if isinstance(found, Principal) else None
    try:
        return await person(request)
    except Refusal as refusal:
        if refusal.status == HTTPStatus.UNAUTHORIZED:
            return None
        raise


def _stands(access: Access, request: web.Request, found: Principal) -> Callable[[], bool]:
    """Return what tells whether who calls may still do so."""
    if SESSION in request:
        return partial(stands, request)
    return lambda: access.authentication.standing(found.id) is not None


def _caller(access: Access, request: web.Request) -> Principal | web.Response:
    if access.open_schemas and is_of_schemas(request):
        return _ANYBODY
    holder = ticket_holder(request, access.tickets)
    by_ticket = None if holder is None else access.authentication.standing(holder)
    return by_ticket or _by_header(access, request)


def _by_header(access: Access, request: web.Request) -> Principal | web.Response:
    scheme, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() != "bearer":
        return _unauthorized("missing")
    text, address = given.strip(), address_of(request)
    # Nobody guesses a minted token, so many failures stop only those who may guess another one.
    is_minted = parse(text) is not None
    seconds = 0 if is_minted else access.failures.wait_seconds(address)
    if seconds:
        return _too_many(seconds)
    found = access.authentication.of_token(text)
    if isinstance(found, Principal):
        return found
    if is_minted and not access.is_known():
        late = "the operator has not read its tokens to their end yet: ask again in a few seconds"
        return refused(Refusal(503, "not-ready", late))
    access.failures.failed(address)
    return _unauthorized(found.reason)


def _unauthorized(reason: str) -> web.Response:
    """Return the 401; only a request that sent a token gets an error code (RFC 6750, 3.1)."""
    challenge = 'Bearer realm="tidegate"'
    if reason != "missing":
        challenge += ', error="invalid_token"'
    headers: dict[str, str] = {hdrs.WWW_AUTHENTICATE: challenge}
    return problem(401, "unauthorized", _DETAILS[reason], headers=headers)


def _too_many(seconds: int) -> web.Response:
    told = f"too many wrong tokens came from this address: try again in {seconds} s"
    headers: dict[str, str] = {hdrs.RETRY_AFTER: str(seconds)}
    return problem(429, "too-many-failures", told, headers=headers)


def address_of(request: web.Request) -> str:
    """Return where a call comes from, as failures are counted by it."""
    return address_of_peer(request.remote)
