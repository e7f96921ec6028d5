"""The whole API over a read model on disk, with tokens of any role, and no Kafka."""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from streams.access.authentication import Authentication
from streams.access.book import AccessBook
from streams.access.permissions import all_roles
from streams.access.principal import Principal
from streams.access.token_records import TokenGrant
from streams.access.tokens import mint
from streams.api.live.http import STREAMS, Streams
from streams.api.live.tickets import Tickets
from streams.api.read_model.database import Database
from streams.api.serving.access import ACCESS, OPEN_PATHS, Access, authenticated
from streams.api.serving.call import require_declared
from streams.api.serving.middlewares import caught_up, newline_ended, problems
from streams.api.serving.routes import routes
from streams.api.serving.state import STATE
from streams.process.wall_clock import wall_ms
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.vault.key_encryption import local_vault
from support.callers import TICKET_KEY
from support.documented import documented
from support.operator_desk import OperatorDesk

HOUR_MS = 3_600_000
BOOTSTRAP_TOKEN = "an-operator-s-token"


class TenantDesk(OperatorDesk):
    """An operator's parts that read what the caller may see."""

    def __init__(self, database: Database, writer: sqlite3.Connection) -> None:
        super().__init__(writer)
        self.database, self.vault = database, local_vault(TICKET_KEY)
        self.artifacts: Any = None

    def asked_by(self, principal: Principal, request_id: str, verb: str = "") -> Any:
        asked = copy.copy(self)
        asked.verb = verb
        asked.principal, asked.request_id = principal, request_id
        return asked

    async def query(self, query: Callable[[sqlite3.Connection], Any]) -> Any:
        return self.database.read(query, self.principal.tenants)

    async def wait_for(self, row: Any, query: Callable[[sqlite3.Connection], Any], *_: Any) -> Any:
        return await self.query(query)

    def ready(self) -> bool:
        return True


class Office:
    """Tokens of each role, of one tenant and of all."""

    def __init__(self, bootstrap: str | None) -> None:
        self.now: Callable[[], int] = wall_ms
        self.book = AccessBook(all_roles({}))
        self.access = Authentication(bootstrap, self.book, lambda: self.now())  # noqa: PLW0108

    def token(self, role: str, tenants: frozenset[str] | None, *permissions: str) -> str:
        token = mint()
        grant = TokenGrant(
            id=token.id,
            name=role,
            role=role,
            permissions=frozenset(permissions),
            tenants=tenants,
            digest=token.digest,
            made_at=wall_ms(),
            made_by="operator",
            expires_at=wall_ms() + HOUR_MS,
        )
        self.book.apply(tenant_key(*grant.key), TENANT.encode(grant.record(wall_ms())))
        return token.text


class Api:
    """The API as one who has tokens asks it."""

    def __init__(self, client: TestClient[Any, Any], office: Office, desk: TenantDesk) -> None:
        self.client, self.office, self.desk = client, office, desk
        self.is_known = True

    async def ask(
        self, token: str, method: str, path: str, body: Any = None
    ) -> tuple[int, dict[str, Any]]:
        """A call with a token: its status, and its JSON if it has some."""
        headers = {"Authorization": f"Bearer {token}"}
        async with self.client.request(method, path, headers=headers, json=body) as answer:
            raw = await answer.read()
            is_json = answer.content_type.endswith("json")
            return answer.status, orjson.loads(raw) if is_json else {}


@asynccontextmanager
async def serving(
    folder: Path,
    *,
    bootstrap: str | None = BOOTSTRAP_TOKEN,
    adding: Callable[[web.Application], None] = lambda _: None,
) -> AsyncIterator[Api]:
    """The API over an empty read model; `api.desk.rows` writes it, and `adding` adds routes."""
    database = Database(folder / "read_model.sqlite")
    writer = database.open_writer()
    office, tickets = Office(bootstrap), Tickets(local_vault(TICKET_KEY))
    desk = TenantDesk(database, writer)
    desk.authentication = office.access
    access = Access(office.access, tickets, open_schemas=True, is_known=lambda: api.is_known)
    guards = [documented, newline_ended, problems, authenticated(access), caught_up]
    app = web.Application(middlewares=guards)
    app[STATE] = desk  # type: ignore[misc]
    app[ACCESS] = access
    app[STREAMS] = Streams(None, tickets, HOUR_MS)  # type: ignore[arg-type]
    app.add_routes(routes())
    adding(app)
    require_declared(app, OPEN_PATHS)
    async with TestClient(TestServer(app)) as client:
        api = Api(client, office, desk)
        yield api
    writer.close()
    database.close()
