"""Who calls the operator's API in tests: the middleware and the part of a state that say so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from streams.access.authentication import Authentication
from streams.access.book import AccessBook
from streams.access.permissions import all_roles
from streams.access.principal import BOOTSTRAP, Principal
from streams.api.condition import Condition
from streams.api.live.tickets import Tickets
from streams.api.serving.access import Access
from streams.api.serving.call import PRINCIPAL, STANDS
from streams.process.wall_clock import wall_ms
from streams.serde.ids import new_id
from streams.serde.records import Call
from streams.topology.load import load
from streams.topology.model import Topology
from streams.vault.key_encryption import Vault, local_vault

TICKET_KEY = b"k" * 32


@web.middleware
async def as_operator(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every call is one of the bootstrap token."""
    request[PRINCIPAL], request[STANDS] = BOOTSTRAP, lambda: True
    return await handler(request)


class AskedByAnybody:
    """The part of a state that says who asks: it does not restrict what is read."""

    principal: Principal = BOOTSTRAP
    request_id: str = "req-2"
    verb: str = ""
    condition: Condition | None = None
    new_tags: dict[Any, Any] = {}  # noqa: RUF012  who calls replaces it
    authentication: Authentication
    command_id: str | None = None

    @property
    def call(self) -> Call:
        return Call(self.principal.id, self.principal.role, self.request_id)

    def asked_by(self, principal: Principal, request_id: str, verb: str = "") -> Any:
        self.principal, self.request_id, self.verb = principal, request_id, verb
        self.condition = self.command_id = None
        return self

    def sending(self, command_id: str) -> Any:
        self.command_id = command_id
        return self

    def new_command_id(self) -> str:
        return new_id("cmd") if self.command_id is None else self.command_id

    def entry(self, *_: Any, **__: Any) -> Any:
        """No entry: the tests on a broker have them."""
        return None

    async def audited(self, *_: Any) -> list[int]:
        return []

    async def refused(self, *_: Any) -> None:
        """No entry, either."""

    async def chained(self, *_: Any) -> list[Any]:
        return []

    def under(self, condition: Condition | None, new_tags: Any) -> Any:
        self.condition, self.new_tags = condition, new_tags
        return self


def access_of(token: str, tickets: Tickets | None = None, *, open_schemas: bool = False) -> Access:
    """What knows a bootstrap token, and no other ones."""
    known = Authentication(token, AccessBook(all_roles({})), wall_ms)
    return Access(known, tickets or Tickets(local_vault(TICKET_KEY)), open_schemas)


@dataclass(frozen=True)
class Operator:
    """What lists need of an operator beside its rows."""

    topology: Topology = field(default_factory=load)
    vault: Vault = field(default_factory=lambda: local_vault(TICKET_KEY))
    principal: Principal = BOOTSTRAP
    authentication: Authentication = field(default_factory=lambda: access_of("t").authentication)
