"""What is declared of each route: who may call it, whose things it concerns, and what it is called.

A route is made by `Calls` alone, and cannot be made without saying both. So what a principal may do
stands beside each handler, and the checks are here, once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from http import HTTPStatus

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from pydantic import BaseModel

from streams.access.permissions import Permission
from streams.access.principal import Principal
from streams.api.operator_state import AppState
from streams.api.refusal import Refusal
from streams.api.rights import require_every_tenant, require_permission
from streams.api.serving.conditions import CONDITION, NEW_TAGS, Tagged
from streams.api.serving.idempotency import idempotency_key
from streams.api.serving.state import STATE
from streams.api.tenants.guards import unknown_tenant
from streams.errors import ConfigError
from streams.serde.ids import keyed_command_id, new_id

PRINCIPAL: web.RequestKey[Principal] = web.RequestKey("principal", Principal)
"""Who asks; every call has one but those that are open."""

_COMMAND_ID: web.RequestKey[str] = web.RequestKey("command_id", str)

READS = "api.read"
"""The verb of a refused call that has none: it would have changed nothing."""

_REQUEST_ID = re.compile(r"[!-~]{1,128}")

STANDS: web.RequestKey[Callable[[], bool]] = web.RequestKey("stands", Callable)  # type: ignore[arg-type]
"""Whether who asks may still do so; an open stream asks again and again."""


class Scope(Enum):
    """Whose things a call concerns."""

    OPEN = auto()
    """Nobody's: it needs no token."""
    SHARED = auto()
    """What all tenants have together, such as job types; a handler leaves out what counts them."""
    TENANT_IN_PATH = auto()
    """The tenant that the path names."""
    ROW = auto()
    """Those of the row that the path names: another tenant's row does not exist for the caller."""
    LISTED = auto()
    """Those of all rows that the caller may see."""
    NAMED = auto()
    """What the body or the query names; the handler looks it up as a caller's own."""
    EVERY_TENANT = auto()
    """All tenants'."""


OPEN, SHARED, TENANT_IN_PATH = Scope.OPEN, Scope.SHARED, Scope.TENANT_IN_PATH
ROW, LISTED, NAMED, EVERY_TENANT = Scope.ROW, Scope.LISTED, Scope.NAMED, Scope.EVERY_TENANT


@dataclass(frozen=True, slots=True)
class Call:
    """The declaration of a route; an open one needs no permission.

    `verb` is what the audit calls it, such as `job.cancel`; an empty one is not in the audit.
    What is `tagged` is shown with an `ETag`, and is changed under `If-Match` if the call has it.
    A call `is_keyed` that sends one command: with an `Idempotency-Key`, a repetition sends the same
    command, which a stage decides once.
    """

    method: str
    path: str
    of: Scope
    needs: Permission | None
    verb: str = ""
    body: type[BaseModel] | None = None
    tagged: Tagged | None = None
    is_keyed: bool = False

    def require(self, principal: Principal, tenant_id: str | None) -> None:
        """Check that a principal may make the call; `tenant_id` is the one in its path.

        Raises:
            Refusal: 403, a permission is missing, or the call concerns all tenants; 404, the tenant
                is another one.
        """
        if self.needs is not None:
            require_permission(principal, self.needs)
        if self.of is EVERY_TENANT:
            require_every_tenant(principal)
        if self.of is TENANT_IN_PATH and tenant_id is not None and not principal.covers(tenant_id):
            raise unknown_tenant(tenant_id)


class Calls:
    """The routes of a resource: as `web.RouteTableDef`, but each with its declaration."""

    def __init__(self) -> None:
        self._routes: list[web.RouteDef] = []

    def __iter__(self) -> Iterator[web.RouteDef]:
        return iter(self._routes)

    def get(
        self,
        path: str,
        *,
        of: Scope,
        needs: Permission | None = None,
        verb: str = "",
        tagged: Tagged | None = None,
        allow_head: bool = True,
    ) -> Callable[[Handler], Handler]:
        """Declare a GET; one that is no plain look, such as that of a payload, has a verb."""
        return self._add(
            Call(hdrs.METH_GET, path, of, needs, verb, tagged=tagged), allow_head=allow_head
        )

    def post(
        self,
        path: str,
        *,
        of: Scope,
        needs: Permission | None = None,
        verb: str,
        body: type[BaseModel] | None = None,
        tagged: Tagged | None = None,
        is_keyed: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Declare a POST."""
        return self._add(Call(hdrs.METH_POST, path, of, needs, verb, body, tagged, is_keyed))

    def put(
        self,
        path: str,
        *,
        of: Scope,
        needs: Permission,
        verb: str,
        body: type[BaseModel] | None = None,
        tagged: Tagged | None = None,
    ) -> Callable[[Handler], Handler]:
        """Declare a PUT."""
        return self._add(Call(hdrs.METH_PUT, path, of, needs, verb, body, tagged))

    def delete(
        self,
        path: str,
        *,
        of: Scope,
        needs: Permission,
        verb: str,
        body: type[BaseModel] | None = None,
        tagged: Tagged | None = None,
    ) -> Callable[[Handler], Handler]:
        """Declare a DELETE."""
        return self._add(Call(hdrs.METH_DELETE, path, of, needs, verb, body, tagged))

    def _add(self, call: Call, **options: bool) -> Callable[[Handler], Handler]:
        _require_consistent(call)

        def declare(handler: Handler) -> Handler:
            route = web.RouteDef(call.method, call.path, _guarded(call, handler), options)
            self._routes.append(route)
            return handler

        return declare


def call_of(handler: object) -> Call | None:
    """Return the declaration of a route's handler; None for one that was made elsewhere."""
    found: Call | None = getattr(handler, "call", None)
    return found


def require_declared(app: web.Application, open_paths: frozenset[str]) -> None:
    """Check that each route but those at these paths is declared.

    Raises:
        ConfigError: one is not; it names them all.
    """
    bare = {
        f"{route.method} {route.resource.canonical}"
        for route in app.router.routes()
        if route.resource is not None
        and route.resource.canonical not in open_paths
        and call_of(route.handler) is None
    }
    if bare:
        raise ConfigError(f"routes without a declaration: {', '.join(sorted(bare))}: use Calls")


def state_of(request: web.Request) -> AppState:
    """Return the operator's parts as the caller sees them: what it reads is the caller's own."""
    state = state_as(request, request[PRINCIPAL])
    condition, command_id = request.get(CONDITION), request.get(_COMMAND_ID)
    if (tags := request.get(NEW_TAGS)) is not None:
        state = state.under(condition, tags)
    return state if command_id is None else state.sending(command_id)


def state_as(request: web.Request, principal: Principal) -> AppState:
    """Return the operator's parts as somebody sees them who makes an open call."""
    call = call_of(request.match_info.handler)
    verb = "" if call is None else call.verb
    return request.app[STATE].asked_by(principal, request_id(request), verb)


def request_id(request: web.Request) -> str:
    """Return the id that the caller gave its request, if it may stand in records, or a new one."""
    given = request.headers.get("X-Request-Id", "")
    return given if _REQUEST_ID.fullmatch(given) else new_id("req")


def _require_consistent(call: Call) -> None:
    """Check that a declaration does not contradict itself or its path.

    Raises:
        ConfigError: it does.
    """
    where = f"{call.method} {call.path}"
    if (call.needs is None) != (call.of is OPEN):
        raise ConfigError(f"{where}: an open call, and no other, needs no permission")
    if ("{tenant_id}" in call.path) != (call.of is TENANT_IN_PATH):
        raise ConfigError(f"{where}: a call below a tenant's path, and no other, is of that tenant")


def _is_of_rights(call: Call, request: web.Request, refusal: Refusal) -> bool:
    """Return whether a call was refused to this caller; what is another tenant's is unknown."""
    if call.of is OPEN:
        return False
    may_be_anothers = call.of is not SHARED and request[PRINCIPAL].tenants is not None
    is_unknown = refusal.status == HTTPStatus.NOT_FOUND and may_be_anothers
    return is_unknown or refusal.status in (HTTPStatus.FORBIDDEN, HTTPStatus.UNAUTHORIZED)


def _guarded(call: Call, handler: Handler) -> Handler:
    @functools.wraps(handler)
    async def guarded(request: web.Request) -> web.StreamResponse:
        try:
            return await allowed(request)
        except Refusal as refusal:
            if _is_of_rights(call, request, refusal):
                state = state_of(request)
                why = refusal.name, refusal.detail
                await state.refused(state.call, call.verb or READS, request.path, *why)
            raise

    async def allowed(request: web.Request) -> web.StreamResponse:
        if call.of is not OPEN:
            call.require(request[PRINCIPAL], request.match_info.get("tenant_id"))
        if call.is_keyed and (key := idempotency_key(request)) is not None:
            asked = request[PRINCIPAL].id, request.path, await request.read()
            request[_COMMAND_ID] = keyed_command_id(*asked, key)
        if call.tagged is None:
            return await handler(request)
        if call.method == hdrs.METH_GET:
            return await call.tagged.shown(request, state_of(request), handler)
        return await call.tagged.changed(request, handler)

    guarded.call = call  # type: ignore[attr-defined]
    return guarded
