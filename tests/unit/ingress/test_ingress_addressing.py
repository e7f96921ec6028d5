"""The route alone names the tenant: by path, by subdomain, or by a signed claim."""

from __future__ import annotations

import asyncio
import base64
import hmac
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey
from support.webhooks import VAULT, MemoryLog, signed, source, topology

from ingress.http.router import Router
from ingress.receive.event_writer import EventWriter
from ingress.receive.key_maker import KeyMaker
from ingress.receive.quarantine import Quarantine
from ingress.receive.receiver import Receiver
from ingress.receive.rejections import Rejections
from ingress.tenants.addressing import addressing
from ingress.tenants.references import References
from ingress.tenants.sources import SourceTable
from streams.errors import ConfigError
from streams.serde.codec import ENVELOPE
from streams.settings import Settings

EC, RSA, STRANGE = (
    ECKey.generate_key("P-256", {"kid": "ec"}),
    RSAKey.generate_key(2048, {"kid": "rsa"}),
    ECKey.generate_key("P-256", {"kid": "ec"}),
)
BODY = b'{"id":"e1","tenant_id":"bolt","tenant":"bolt"}'
NAMING_BOLT = {
    "X-Tenant-Id": "bolt",
    "X-Forwarded-Host": "bolt.hooks.example.com",
    "Forwarded": "host=bolt.hooks.example.com",
    "X-Original-URL": "/v1/hooks/bolt/shop",
}


UNSIGNED = "eyJhbGciOiJub25lIn0.eyJ0ZW5hbnRfaWQiOiJhY21lIn0."
"""`{"alg":"none"}` and `{"tenant_id":"acme"}`."""


def sources() -> SourceTable:
    table = SourceTable(VAULT, References())
    for tenant_id in ("acme", "bolt", "a.acme", "42"):
        table.apply(*source(tenant_id, "shop", "hmac-sha256"))
    return table


class Edge:
    """A server under some settings, and the tenants whose events it took."""

    def __init__(self, settings: Settings) -> None:
        self._log = MemoryLog()
        writer = EventWriter(self._log, KeyMaker(self._log, VAULT, self._log.book, 4), 4)
        quarantine = Quarantine(self._log, writer)
        receiver = Receiver(sources(), lambda: True, writer, quarantine, topology())
        rejections = Rejections(self._log, lambda tenant_id, name: (tenant_id, name), 4)
        self.router = Router(receiver, lambda: True, rejections, addressing(settings))
        self.port = 0

    async def post(self, path: str, headers: dict[str, str], body: bytes = BODY) -> int:
        url = f"http://127.0.0.1:{self.port}{path}"
        given = {**NAMING_BOLT, **signed(body), **headers}
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=body, headers=given) as response,
        ):
            answer = orjson.loads(await response.read())
            assert response.status == 202 or answer["type"].startswith("urn:tidegate:problem:")
            return response.status

    async def raw(self, head: str) -> bytes:
        """The first line of the answer to a request that no client would send."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        signature = signed(BODY)["X-Signature"]
        sent = f"{head}X-Signature: {signature}\r\nContent-Length: {len(BODY)}\r\n\r\n"
        writer.write(sent.encode() + BODY)
        try:
            async with asyncio.timeout(10):
                return (await reader.readline()).split()[1]
        finally:
            writer.close()

    def taken(self) -> set[str]:
        return {ENVELOPE.decode(r.value).tenant_id for r in self._log.on("events.received")}


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Edge]:
    edge = Edge(Settings(**settings))
    runner = web.ServerRunner(web.Server(edge.router.handle, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    edge.port = runner.addresses[0][1]
    try:
        yield edge
    finally:
        await runner.cleanup()


@pytest.fixture
async def subdomains() -> AsyncIterator[Edge]:
    async with serving(
        ingress_tenant_from="subdomain", ingress_base_domain="Hooks.example.com."
    ) as edge:
        yield edge


@pytest.fixture
def jwks(tmp_path: Path) -> Path:
    file = tmp_path / "jwks.json"
    file.write_bytes(orjson.dumps(KeySet([EC, RSA]).as_dict(private=False)))
    return file


@pytest.fixture
async def claims(jwks: Path) -> AsyncIterator[Edge]:
    async with serving(ingress_tenant_from="claim", ingress_jwks_file=jwks) as edge:
        yield edge


def bearer(claims: dict[str, Any], key: Any = EC, alg: str = "ES256") -> dict[str, str]:
    header = {"alg": alg, "kid": key.kid}
    return {"Authorization": "Bearer " + jwt.encode(header, claims, key, algorithms=[alg])}


async def test_by_path_nothing_else_in_a_request_names_the_tenant() -> None:
    async with serving() as edge:
        headers = {"Host": "bolt.hooks.example.com", **bearer({"tenant_id": "bolt"})}
        assert await edge.post("/v1/hooks/acme/shop?tenant=bolt&tenant_id=bolt", headers) == 202
        assert edge.taken() == {"acme"}
        assert await edge.post("/v1/hooks/shop", headers) == 404


async def test_by_subdomain_nothing_else_in_a_request_names_the_tenant(subdomains: Edge) -> None:
    headers = {"Host": "acme.hooks.example.com", **bearer({"tenant_id": "bolt"})}
    assert await subdomains.post("/v1/hooks/shop?tenant=bolt&tenant_id=bolt", headers) == 202
    assert subdomains.taken() == {"acme"}
    assert await subdomains.post("/v1/hooks/bolt/shop", headers) == 404
    assert subdomains.taken() == {"acme"}


@pytest.mark.parametrize(
    "host", ["acme.hooks.example.com:8443", "ACME.Hooks.Example.COM", "acme.hooks.example.com."]
)
async def test_a_host_is_the_same_in_any_case_and_with_a_port(subdomains: Edge, host: str) -> None:
    assert await subdomains.post("/v1/hooks/shop", {"Host": host}) == 202
    assert subdomains.taken() == {"acme"}


@pytest.mark.parametrize(
    "host",
    [
        "hooks.example.com",
        ".hooks.example.com",
        "acme.other.example.com",
        "acme",
        "a.acme.hooks.example.com",
        "acme.hooks.example.com.evil.com",
        "acme.hooks.example.com.hooks.example.com",
        "acmehooks.example.com",
        "127.0.0.1",
    ],
)
async def test_a_host_that_is_no_tenant_s_is_a_tenant_that_is_not_there(
    subdomains: Edge, host: str
) -> None:
    assert await subdomains.post("/v1/hooks/shop", {"Host": host}) == 401
    assert subdomains.taken() == set()


async def test_a_request_that_names_two_hosts_has_no_tenant(subdomains: Edge) -> None:
    acme, bolt = "Host: acme.hooks.example.com\r\n", "Host: bolt.hooks.example.com\r\n"
    post = "POST {}/v1/hooks/shop HTTP/1.1\r\n"
    assert await subdomains.raw(post.format("") + acme) == b"202"
    for head in (
        post.format("") + acme + bolt,
        post.format("") + bolt + acme,
        post.format("http://bolt.hooks.example.com") + acme,
    ):
        assert await subdomains.raw(head) in (b"400", b"401")
    assert subdomains.taken() == {"acme"}


@pytest.mark.parametrize(("key", "alg"), [(EC, "ES256"), (RSA, "RS256"), (RSA, "PS256")])
async def test_by_claim_nothing_else_in_a_request_names_the_tenant(
    claims: Edge, key: Any, alg: str
) -> None:
    token = bearer({"tenant_id": "acme", "tenant": "bolt", "sub": "bolt"}, key, alg)
    headers = {"Host": "bolt.hooks.example.com", **token}
    assert await claims.post("/v1/hooks/shop?tenant=bolt&tenant_id=bolt", headers) == 202
    assert claims.taken() == {"acme"}
    assert await claims.post("/v1/hooks/bolt/shop", headers) == 404


async def test_a_token_alone_is_not_enough(claims: Edge) -> None:
    headers = {**bearer({"tenant_id": "acme"}), **signed(BODY, b"of another source")}
    assert await claims.post("/v1/hooks/shop", headers) == 401


def shared_key(claims: dict[str, Any]) -> dict[str, str]:
    """The public key taken for a shared secret (RFC 8725, section 2.1)."""
    parts = [orjson.dumps({"alg": "HS256", "kid": "ec"}), orjson.dumps(claims)]
    head = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    mac = hmac.digest(EC.as_pem(private=False), head, "sha256")
    token = head + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")
    return {"Authorization": f"Bearer {token.decode()}"}


@pytest.mark.parametrize(
    "headers",
    [
        lambda: {},
        lambda: bearer({"tenant_id": "acme"}, STRANGE),
        lambda: bearer({"tenant_id": "acme", "exp": int(time.time()) - 120}),
        lambda: bearer({"tenant_id": "acme", "nbf": int(time.time()) + 120}),
        lambda: bearer({"tenant_id": ["acme"]}),
        lambda: bearer({"tenant_id": None}),
        lambda: bearer({"tenant_id": 42}),
        lambda: bearer({"tenant": "acme"}),
        lambda: {"Authorization": f"Bearer {UNSIGNED}"},
        lambda: shared_key({"tenant_id": "acme"}),
        lambda: {"Authorization": bearer({"tenant_id": "acme"})["Authorization"][:-4] + "AAAA"},
        lambda: {"Authorization": "Basic YWNtZTphY21l"},
        lambda: {"Authorization": "Bearer"},
        lambda: {"Authorization": "Bearer ...."},
        lambda: {"Authorization": "Bearer \xe9.\xff.\xe9"},
    ],
)
async def test_a_token_that_does_not_hold_is_a_tenant_that_is_not_there(
    claims: Edge, headers: Callable[[], dict[str, str]]
) -> None:
    assert await claims.post("/v1/hooks/shop", headers()) == 401
    assert claims.taken() == set()


async def test_two_tokens_are_none(claims: Edge) -> None:
    acme, bolt = (bearer({"tenant_id": t})["Authorization"] for t in ("acme", "bolt"))
    post = "POST /v1/hooks/shop HTTP/1.1\r\nHost: x\r\n"
    two = f"{post}Authorization: {acme}\r\nAuthorization: {bolt}\r\n"
    assert await claims.raw(two) in (b"400", b"401")
    assert await claims.raw(f"{post}Authorization: {acme}\r\n") == b"202"
    assert claims.taken() == {"acme"}


async def test_the_claim_s_name_is_configurable(jwks: Path) -> None:
    async with serving(
        ingress_tenant_from="claim", ingress_jwks_file=jwks, ingress_tenant_claim="org"
    ) as edge:
        assert await edge.post("/v1/hooks/shop", bearer({"org": "acme"})) == 202
        assert await edge.post("/v1/hooks/shop", bearer({"tenant_id": "acme"})) == 401


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"ingress_tenant_from": "subdomain"}, "needs TIDEGATE_INGRESS_BASE_DOMAIN"),
        ({"ingress_tenant_from": "claim"}, "needs TIDEGATE_INGRESS_JWKS_FILE"),
        ({"ingress_base_domain": "x.com"}, "BASE_DOMAIN does nothing with .*=path"),
        ({"ingress_jwks_file": "/x"}, "JWKS_FILE does nothing with .*=path"),
        ({"ingress_tenant_claim": "t"}, "TENANT_CLAIM does nothing with .*=path"),
        (
            {
                "ingress_tenant_from": "subdomain",
                "ingress_base_domain": "x.com",
                "ingress_tenant_claim": "t",
            },
            "TENANT_CLAIM does nothing with .*=subdomain",
        ),
        ({"ingress_tenant_from": "subdomain", "ingress_base_domain": "a b"}, "'a b' is no domain"),
        ({"ingress_tenant_from": "subdomain", "ingress_base_domain": ""}, "is no domain"),
        ({"ingress_tenant_from": "claim", "ingress_jwks_file": "/not/there"}, "cannot read"),
    ],
)
def test_settings_that_do_not_fit_each_other_are_refused(
    settings: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        addressing(Settings(**settings))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "is no JSON Web Key Set"),
        (b"[]", "is no JSON Web Key Set"),
        (b"{}", "is no JSON Web Key Set"),
        (b'{"keys": []}', "is no JSON Web Key Set"),
        (b'{"keys": [{"kty": "EC"}]}', "is no JSON Web Key Set"),
        (b'{"keys": [{"kty": "oct", "k": "aHVudGVyMmh1bnRlcjJodW50ZXIy"}]}', "symmetric key"),
    ],
)
def test_a_file_that_is_no_set_of_public_keys_is_refused(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    file = tmp_path / "jwks.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=fault) as refused:
        addressing(Settings(ingress_tenant_from="claim", ingress_jwks_file=file))
    assert "aHVudGVyMmh1" not in str(refused.value)
