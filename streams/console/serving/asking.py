"""Asks the API from within the process, with the rights of whoever looks at a page.

A call runs the handler of its route, with the checks that the route declares. It has no connection
of its own: what is refused is raised, and what is answered is returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import hdrs, web
from yarl import URL

from streams.api.refusal import Refusal
from streams.api.serving.call import PRINCIPAL, STANDS, Call, call_of
from streams.api.serving.session import SESSION

JSON = dict[str, Any]
API = "/v1/"

_KEPT = ("Host", "X-Request-Id", "traceparent")
"""Headers of a page's request that its calls have, too."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call answered; `tag` is for `If-Match`, None if it has none."""

    json: Any
    headers: Mapping[str, str]

    @property
    def members(self) -> JSON:
        """The members of an object; none of anything else."""
        return self.json if isinstance(self.json, dict) else {}

    @property
    def tag(self) -> str | None:
        return self.headers.get(hdrs.ETAG)


class Asking:
    """Makes calls for one request of a page; make it before the request's body is read."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._bare = request.clone()

    async def call(
        self,
        method: str,
        target: str | URL,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Make a call of the API.

        Raises:
            Refusal: the call is refused.
            web.HTTPException: there is no such call.
        """
        asked = await self._asked(method, URL(target), body, headers or {})
        answer = await asked.match_info.handler(asked)
        if not isinstance(answer, web.Response):
            raise Refusal(406, "not-for-pages", "this call answers a stream: open it by itself")
        raw = answer.body if isinstance(answer.body, bytes) else b""
        json = orjson.loads(raw) if answer.content_type.endswith("json") and raw else None
        if answer.status >= 400:
            raise _refusal(answer.status, json)
        return Answer(json, answer.headers)

    async def get(
        self, path: str, asked: Mapping[str, str] | None = None, /, **query: str | int | None
    ) -> JSON:
        """Return the JSON of a GET; parameters that are None or empty are left out.

        `asked` is a page's own query: whatever names stand in it, the call gets them.
        """
        given = [*(asked or {}).items(), *query.items()]
        named = [(name, str(value)) for name, value in given if value not in (None, "")]
        found: JSON = (await self.call(hdrs.METH_GET, URL(path).with_query(named))).json
        return found

    async def get_if_there(self, path: str, **query: str | int | None) -> JSON:
        """Return the JSON of a GET; an empty object if the call is refused, as without a store."""
        try:
            return await self.get(path, **query)
        except Refusal:
            return {}

    async def tagged_if_there(self, path: str) -> tuple[JSON, str]:
        """Return the JSON and the tag of a setting; both are empty if the call is refused."""
        try:
            found = await self.call(hdrs.METH_GET, path)
        except Refusal:
            return {}, ""
        return found.json, found.tag or ""

    async def declared(self, method: str, target: str | URL) -> Call | None:
        """Return the declaration of the call at a path; None if there is none."""
        asked = await self._asked(method, URL(target), b"", {})
        return call_of(asked.match_info.handler)

    async def _asked(
        self, method: str, target: URL, body: bytes, headers: Mapping[str, str]
    ) -> web.Request:
        """Return a request as the router would have given it to its handler."""
        ours = self._request.headers
        kept = {name: ours[name] for name in _KEPT if name in ours}
        asked = self._bare.clone(method=method, rel_url=target, headers={**kept, **headers})
        app = self._request.app
        match = await app.router.resolve(asked)
        match.add_app(app)
        match.freeze()
        # aiohttp has no public way to give a request its body and its route.
        asked._match_info = match
        asked._read_bytes = body
        if SESSION in self._request:
            asked[SESSION] = self._request[SESSION]
        asked[PRINCIPAL], asked[STANDS] = self._request[PRINCIPAL], self._request[STANDS]
        return asked


def _refusal(status: int, problem: Any) -> Refusal:
    """Return a problem that a handler answered as what others raise."""
    found = problem if isinstance(problem, dict) else {}
    name = str(found.get("type", "refused")).rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    return Refusal(status, name, str(found.get("detail", "the call is refused")))
