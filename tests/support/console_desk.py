"""The console over a read model on disk, as a browser sees it, and no Kafka."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, CookieJar, web
from aiohttp.typedefs import Middleware
from yarl import URL

from streams.access.session_ends import SessionEnds
from streams.api.serving.access import ACCESS
from streams.api.serving.session import DESK, renew_cookie
from streams.api.session.desk import sign_in_desk
from streams.console.serving.routes import add_console
from streams.settings import Settings
from streams.topology.load import load
from streams.vault.key_encryption import local_vault
from support.access_desk import Api, serving
from support.callers import TICKET_KEY


class Browser:
    """A browser; `page` and `act` do what a person does without scripts."""

    def __init__(self, session: ClientSession, origin: str) -> None:
        self.session, self.origin = session, origin

    async def get(self, path: str, **options: Any) -> tuple[int, str]:
        """A page: its status and its HTML."""
        async with self.session.get(self.url(path), **options) as answer:
            return answer.status, await answer.text()

    async def page(self, path: str, **options: Any) -> str:
        """A page that must be there."""
        status, html = await self.get(path, **options)
        assert status == 200, (status, html)
        return html

    async def post(self, path: str, **fields: str) -> tuple[int, str]:
        """Send a form, and follow where it leads."""
        async with self.session.post(self.url(path), data=fields) as answer:
            return answer.status, await answer.text()

    async def enter(self, token: str) -> tuple[int, str]:
        """Sign in with a token."""
        return await self.post("/console/sign-in", token=token, next="/console/jobs")

    async def act(self, html: str, call: str, **fields: str) -> tuple[int, str]:
        """Fill in and send the form of a page that makes a call, such as `POST /v1/bulk`."""
        for form in re.findall(r'<form method="post" action="/console/act".*?</form>', html, re.S):
            hidden = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', form))
            given = {name: unescape(value) for name, value in hidden.items()}
            if given["call"].startswith(call):
                return await self.post("/console/act", **given, **fields)
        raise AssertionError(f"the page has no form for {call}")

    async def act_with_csrf_of(
        self, own: str, html: str, call: str, **fields: str
    ) -> tuple[int, str]:
        """Send the form of a page that somebody else was shown."""
        token = re.findall(r'name="csrf" value="([^"]*)"', own)[0]
        return await self.act(
            re.sub(r'(name="csrf" value=")[^"]*', rf"\g<1>{token}", html), call, **fields
        )

    def url(self, path: str) -> URL:
        return URL(self.origin + path, encoded=True)


class Console:
    """The console and its API; `api.desk.rows` writes what they show."""

    def __init__(self, api: Api, app: web.Application) -> None:
        self.api, self.app = api, app
        self.origin = str(api.client.make_url("")).rstrip("/")
        self.stack = AsyncExitStack()

    async def browser(self) -> Browser:
        """A browser that nobody has signed in with."""
        jar = CookieJar(unsafe=True, treat_as_secure_origin=[URL(self.origin)])
        session = await self.stack.enter_async_context(ClientSession(cookie_jar=jar))
        return Browser(session, self.origin)

    async def signed_in(
        self, role: str = "admin", tenants: frozenset[str] | None = None
    ) -> Browser:
        """A browser of somebody who has entered a token of this role."""
        made = await self.browser()
        status, html = await made.enter(self.api.office.token(role, tenants))
        assert status < 500, html
        return made


@asynccontextmanager
async def console(folder: Path, *middlewares: Middleware) -> AsyncIterator[Console]:
    """The console, at an address of this machine; `middlewares` are around its handlers."""
    kept: list[web.Application] = []

    def adding(app: web.Application) -> None:
        kept.append(app)
        app.middlewares.extend(middlewares)
        app.on_response_prepare.append(renew_cookie)
        app.cleanup_ctx.append(signing_in)
        add_console(app)

    async def signing_in(app: web.Application) -> AsyncIterator[None]:
        vault, topology = local_vault(TICKET_KEY), replace(load(), issuers={})
        standing = app[ACCESS].authentication.standing
        async with sign_in_desk(Settings(), topology, vault, SessionEnds(), standing) as desk:
            app[DESK] = desk
            yield

    async with serving(folder, adding=adding) as api:
        built = Console(api, kept[0])
        async with built.stack:
            yield built
