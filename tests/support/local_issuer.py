"""An OpenID Connect issuer on this machine, which can be told to misbehave."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey
from yarl import URL

CLIENT, SECRET = "tidegate", "s3cret/of+the client"
Json = dict[str, Any]


@dataclass
class Person:
    """Who signs in at the issuer."""

    sub: str = "ada"
    groups: list[str] = field(default_factory=lambda: ["ops"])
    claims: Json = field(default_factory=lambda: {"name": "Ada Lovelace"})


@dataclass
class _Grant:
    person: Person
    nonce: str
    challenge: str = ""
    redirect_uri: str = ""


class LocalIssuer:
    """Signs `person` in at once. What it gets wrong is set before a call:

    `claims` replaces claims of its tokens, and removes those that are None; a function is called
    with the time. `signed` makes another
    token of header and claims; `document` changes its metadata; `answers` replaces what a path
    answers; `named` is the `iss` of its answers to browsers.
    """

    def __init__(self) -> None:
        self.person = Person()
        self.claims: Json = {}
        self.document: Json = {}
        self.answers: dict[str, Callable[[web.Request], Any]] = {}
        self.calls: Counter[str] = Counter()
        self.forms: list[dict[str, str]] = []
        self.url = self.named = ""
        self.signed: Callable[[Json, Json], str] = self.sign
        self.renews = True
        self._codes: dict[str, _Grant] = {}
        self._refresh: dict[str, _Grant] = {}
        self.key: Any = _first_key()
        self.published = [self.key]

    def rotate(self, *, kind: str = "RSA") -> None:
        """Sign with a new key from now on, and publish that one alone."""
        self.key = _new_key(kind)
        self.published = [self.key]

    def sign(self, header: Json, claims: Json) -> str:
        return jwt.encode(header, claims, self.key, algorithms=[header["alg"]])

    @property
    def algorithm(self) -> str:
        return "RS256" if isinstance(self.key, RSAKey) else "ES256"

    def app(self) -> web.Application:
        app = web.Application()
        for method, path, handler in (
            ("GET", "/.well-known/openid-configuration", self._metadata),
            ("GET", "/authorize", self._authorize),
            ("GET", "/jwks", self._keys),
            ("POST", "/token", self._token),
        ):
            app.router.add_route(method, path, self._counted(path, handler))
        return app

    def _counted(self, path: str, handler: Callable[[web.Request], Any]) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            self.calls[path] += 1
            answer: web.StreamResponse = await self.answers.get(path, handler)(request)
            return answer

        return handle

    async def _metadata(self, _: web.Request) -> web.Response:
        document = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "code_challenge_methods_supported": ["S256"],
            "id_token_signing_alg_values_supported": ["RS256", "ES256"],
            "authorization_response_iss_parameter_supported": True,
        }
        return web.json_response({k: v for k, v in (document | self.document).items() if v})

    async def _keys(self, _: web.Request) -> web.Response:
        return web.json_response(KeySet(self.published).as_dict(private=False))

    async def _authorize(self, request: web.Request) -> web.Response:
        asked = request.query
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert asked["code_challenge_method"] == "S256"
        code = self.code_for(asked["nonce"], asked["code_challenge"], asked["redirect_uri"])
        answer = {"code": code, "state": asked["state"]}
        answer |= {"iss": self.named} if self.named else {}
        raise web.HTTPFound(URL(asked["redirect_uri"]).update_query(answer))

    def code_for(self, nonce: str, challenge: str, redirect_uri: str) -> str:
        code = secrets.token_urlsafe(8)
        self._codes[code] = _Grant(self.person, nonce, challenge, redirect_uri)
        return code

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        if not _is_client(request, form):
            return web.json_response({"error": "invalid_client"}, status=401)
        grant = self._granted(form)
        if grant is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response(self._answer(grant))

    def _granted(self, form: dict[str, str]) -> _Grant | None:
        """The grant of a code or refresh token, which is taken once."""
        if form["grant_type"] == "refresh_token":
            return self._refresh.pop(form["refresh_token"], None)
        grant = self._codes.pop(form["code"], None)
        if grant is None or grant.redirect_uri != form["redirect_uri"]:
            return None
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        return grant if challenge == grant.challenge else None

    def _answer(self, grant: _Grant) -> Json:
        person, now = self.person, int(time.time())
        claims: Json = {"iss": self.url, "aud": CLIENT, "sub": person.sub, "nonce": grant.nonce}
        claims |= {"iat": now, "exp": now + 300, "groups": person.groups}
        claims |= {**person.claims, **self.claims}
        claims = {k: v(now) if callable(v) else v for k, v in claims.items()}
        header = {"alg": self.algorithm, "kid": self.key.kid}
        token = self.signed(header, {k: v for k, v in claims.items() if v is not None})
        answer: Json = {"access_token": "unused", "token_type": "Bearer", "id_token": token}
        if self.renews:
            answer["refresh_token"] = secrets.token_urlsafe(24)
            self._refresh[answer["refresh_token"]] = grant
        return answer


def _new_key(kind: str) -> Any:
    made: Any = RSAKey if kind == "RSA" else ECKey
    size = 2048 if kind == "RSA" else "P-256"
    return made.generate_key(size, parameters={"kid": secrets.token_hex(4), "use": "sig"})


@cache
def _first_key() -> Any:
    """The key that every issuer begins with: to make one takes long."""
    return _new_key("RSA")


@asynccontextmanager
async def running(issuer: LocalIssuer) -> AsyncIterator[LocalIssuer]:
    """The issuer, listening on a port of its own."""
    async with TestServer(issuer.app()) as server:
        issuer.url = issuer.named = str(server.make_url("")).rstrip("/")
        yield issuer


async def visit(url: str) -> dict[str, str]:
    """What a browser brings back from an authorization URL."""
    async with ClientSession() as browser, browser.get(url, allow_redirects=False) as answer:
        assert answer.status == 302, await answer.text()
        return dict(parse_qsl(urlsplit(answer.headers["Location"]).query))


async def hangs(_: web.Request) -> web.Response:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError


async def endless(request: web.Request) -> web.StreamResponse:
    """Answer a JSON object without end."""
    answer = web.StreamResponse(headers={"Content-Type": "application/json"})
    await answer.prepare(request)
    await answer.write(b'{"issuer":"')
    while True:
        await answer.write(b"x" * 65_536)


def unsigned(_: Json, claims: Json) -> str:
    """A token with `alg: none`."""
    parts = ({"alg": "none"}, claims)
    return ".".join(base64url(json.dumps(part).encode()) for part in parts) + "."


def base64url(data: bytes) -> str:
    """Bytes as tokens have them (RFC 7515, section 2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _is_client(request: web.Request, form: dict[str, str]) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme == "Basic":
        name, _, secret = base64.b64decode(given).decode().partition(":")
        return (unquote_plus(name), unquote_plus(secret)) == (CLIENT, SECRET)
    return (form.get("client_id"), form.get("client_secret")) == (CLIENT, SECRET)
