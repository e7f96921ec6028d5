"""Only the person of this very sign-in is let in, whatever the issuer or somebody between sends."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from joserfc import jws, jwt
from joserfc.jwk import RSAKey
from support.local_issuer import (
    CLIENT,
    SECRET,
    LocalIssuer,
    base64url,
    endless,
    hangs,
    running,
    unsigned,
    visit,
)

from streams.access.oidc import answers, authorization
from streams.access.oidc.answers import Calls, session_for_issuers
from streams.access.oidc.authorization import WITHIN_MS, SignIn
from streams.access.oidc.client import IssuerClient, SignedIn
from streams.access.oidc.issuer import Issuer
from streams.access.oidc.kept_answer import AGAIN_SECONDS
from streams.errors import IssuerUnavailable, SignInRefused

RETURN = "http://127.0.0.1:1/v1/session/callback/corp"
NOW = 1_700_000_000_000


@pytest.fixture
async def issuer() -> AsyncIterator[LocalIssuer]:
    async with running(LocalIssuer()) as issuer:
        yield issuer


class Clock:
    """An even clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def client(issuer: LocalIssuer, clock: Clock) -> AsyncIterator[IssuerClient]:
    configured = Issuer("corp", issuer.url, CLIENT, RETURN, lambda: SECRET)
    async with session_for_issuers() as session:
        yield IssuerClient(configured, Calls(session), clock=clock)


async def returned(client: IssuerClient) -> tuple[SignIn, dict[str, str]]:
    """A sign-in, and what the browser brings back from the issuer."""
    sign_in = authorization.begin(client.issuer, "/", NOW)
    return sign_in, await visit(await client.authorization_url(sign_in))


async def signed_in(client: IssuerClient) -> SignedIn:
    sign_in, answer = await returned(client)
    return await client.finish(answer, sign_in, NOW)


async def refused(client: IssuerClient) -> str:
    """Why a sign-in is refused."""
    with pytest.raises(SignInRefused) as refusal:
        await signed_in(client)
    return refusal.value.reason


async def test_a_person_is_signed_in(client: IssuerClient, issuer: LocalIssuer) -> None:
    found = await signed_in(client)
    assert (found.claims["sub"], found.claims["groups"]) == ("ada", ["ops"])
    assert found.refresh_token
    assert "client_secret" not in issuer.forms[0]


@pytest.mark.parametrize("kind", ["RSA", "EC"])
async def test_keys_of_both_kinds_sign(
    client: IssuerClient, issuer: LocalIssuer, kind: str
) -> None:
    issuer.rotate(kind=kind)
    assert (await signed_in(client)).claims["sub"] == "ada"


async def test_a_secret_goes_into_the_form_where_the_issuer_takes_no_header(
    client: IssuerClient, issuer: LocalIssuer
) -> None:
    issuer.document = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    await signed_in(client)
    assert issuer.forms[0]["client_secret"] == SECRET


def with_public_key(issuer: LocalIssuer) -> Callable[[dict[str, Any], dict[str, Any]], str]:
    """Tokens whose HMAC has the issuer's public key as its key."""
    key = issuer.key.as_pem(private=False)

    def sign(header: dict[str, Any], claims: dict[str, Any]) -> str:
        parts = ({"alg": "HS256", "kid": header["kid"]}, claims)
        text = ".".join(base64url(json.dumps(part).encode()) for part in parts)
        return f"{text}.{base64url(hmac.digest(key, text.encode(), 'sha256'))}"

    return sign


def with_foreign_key(issuer: LocalIssuer) -> Callable[[dict[str, Any], dict[str, Any]], str]:
    """Tokens that somebody else signed, under the issuer's key id."""
    key = RSAKey.generate_key(2048, parameters={"kid": issuer.key.kid})

    def sign(header: dict[str, Any], claims: dict[str, Any]) -> str:
        return jwt.encode(header, claims, key)

    return sign


def with_own_key_in_the_header(
    _: LocalIssuer,
) -> Callable[[dict[str, Any], dict[str, Any]], str]:
    """Tokens that bring the key that they are to be checked with."""
    key = RSAKey.generate_key(2048)

    def sign(header: dict[str, Any], claims: dict[str, Any]) -> str:
        header = {"alg": "RS256", "jwk": key.as_dict(private=False), "kid": header["kid"]}
        return jwt.encode(header, claims, key)

    return sign


def with_no_claims(issuer: LocalIssuer) -> Callable[[dict[str, Any], dict[str, Any]], str]:
    """Signed tokens whose content is a list."""
    return lambda header, _: jws.serialize_compact(header, b"[1]", issuer.key)


@pytest.mark.parametrize(
    ("signed", "reason"),
    [
        (lambda _: unsigned, "token-algorithm"),
        (with_public_key, "token-algorithm"),
        (with_foreign_key, "token-signature"),
        (with_own_key_in_the_header, "token-signature"),
        (with_no_claims, "token-malformed"),
        (lambda _: lambda *_: "not.a.token", "token-malformed"),
        (lambda _: lambda *_: "", "token-malformed"),
        (lambda _: lambda *_: "eyJhbGciOjF9.e30.AA", "token-malformed"),
        (lambda _: lambda *_: "a" * 200_000, "token-malformed"),
    ],
)
async def test_a_token_that_the_issuer_did_not_sign_is_refused(
    client: IssuerClient, issuer: LocalIssuer, signed: Any, reason: str
) -> None:
    issuer.signed = signed(issuer)
    assert await refused(client) == reason


HOUR = 3_600


def later(seconds: float) -> Callable[[int], float]:
    """A claim that is a time from now on."""
    return lambda now: now + seconds


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://elsewhere.example"}, "token-issuer"),
        ({"iss": None}, "token-issuer"),
        ({"aud": "another"}, "token-audience"),
        ({"aud": ["another"]}, "token-audience"),
        ({"aud": None}, "token-audience"),
        ({"aud": {CLIENT: 1}}, "token-audience"),
        ({"azp": "another"}, "token-party"),
        ({"aud": [CLIENT, "another"]}, "token-party"),
        ({"aud": [CLIENT, "another"], "azp": "another"}, "token-party"),
        ({"nonce": "of another sign-in"}, "token-nonce"),
        ({"nonce": None}, "token-nonce"),
        ({"nonce": ["x"]}, "token-nonce"),
        ({"nonce": "é"}, "token-nonce"),
        ({"exp": None}, "token-times"),
        ({"exp": "never"}, "token-times"),
        ({"exp": True}, "token-times"),
        ({"iat": None}, "token-times"),
        ({"exp": later(-120)}, "token-expired"),
        ({"nbf": later(HOUR)}, "token-early"),
        ({"iat": later(HOUR), "exp": later(2 * HOUR)}, "token-early"),
        ({"sub": None}, "token-subject"),
        ({"sub": ""}, "token-subject"),
        ({"sub": 7}, "token-subject"),
        ({"sub": "a\nb"}, "token-subject"),
        ({"sub": "a" * 256}, "token-subject"),
    ],
)
async def test_a_token_that_is_not_of_this_sign_in_is_refused(
    client: IssuerClient, issuer: LocalIssuer, claims: dict[str, Any], reason: str
) -> None:
    issuer.claims = claims
    assert await refused(client) == reason


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": [CLIENT]},
        {"aud": [CLIENT, "another"], "azp": CLIENT},
        {"exp": later(-30), "iat": later(-300)},  # the clocks differ a little
        {"nbf": later(-HOUR)},
    ],
)
async def test_a_token_that_holds_is_taken(
    client: IssuerClient, issuer: LocalIssuer, claims: dict[str, Any]
) -> None:
    issuer.claims = claims
    assert (await signed_in(client)).claims["sub"] == "ada"


async def test_after_a_change_of_keys_the_new_ones_are_read_once(
    client: IssuerClient, issuer: LocalIssuer, clock: Clock
) -> None:
    await signed_in(client)
    clock.seconds += AGAIN_SECONDS
    issuer.rotate()
    assert (await signed_in(client)).claims["sub"] == "ada"
    assert issuer.calls["/jwks"] == 2


async def test_tokens_of_unknown_keys_cannot_make_the_operator_ask_without_end(
    client: IssuerClient, issuer: LocalIssuer, clock: Clock
) -> None:
    await signed_in(client)
    clock.seconds += AGAIN_SECONDS
    stranger = LocalIssuer()
    stranger.rotate()
    issuer.signed = lambda header, claims: stranger.sign(header | {"kid": stranger.key.kid}, claims)
    for _ in range(5):
        assert await refused(client) == "token-key-unknown"
    assert issuer.calls["/jwks"] == 2


async def test_a_code_is_redeemed_once(client: IssuerClient) -> None:
    sign_in, answer = await returned(client)
    await client.finish(answer, sign_in, NOW)
    with pytest.raises(SignInRefused) as refusal:
        await client.finish(answer, sign_in, NOW)
    assert refusal.value.reason == "code-refused"


async def test_a_code_of_another_browser_cannot_be_redeemed(client: IssuerClient) -> None:
    """The code of one sign-in is put into the answer of another: its verifier does not fit."""
    _, stolen = await returned(client)
    sign_in, own = await returned(client)
    with pytest.raises(SignInRefused) as refusal:
        await client.finish(own | {"code": stolen["code"]}, sign_in, NOW)
    assert refusal.value.reason == "code-refused"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"state": "of another sign-in"}, "state-unknown"),
        ({"state": ""}, "state-unknown"),
        ({"state": "é"}, "state-unknown"),
        ({"iss": "https://elsewhere.example"}, "issuer-mixed-up"),
        ({"iss": None}, "issuer-mixed-up"),
        ({"error": "access_denied"}, "issuer-refused"),
        ({"code": ""}, "code-missing"),
        ({"code": "x" * 10_000}, "code-missing"),
    ],
)
async def test_an_answer_that_is_not_of_this_sign_in_reaches_no_issuer(
    client: IssuerClient, issuer: LocalIssuer, change: dict[str, str | None], reason: str
) -> None:
    sign_in, answer = await returned(client)
    changed = {name: value for name, value in {**answer, **change}.items() if value is not None}
    with pytest.raises(SignInRefused) as refusal:
        await client.finish(changed, sign_in, NOW)
    assert (refusal.value.reason, issuer.calls["/token"]) == (reason, 0)


async def test_a_late_answer_is_refused(client: IssuerClient) -> None:
    sign_in, answer = await returned(client)
    with pytest.raises(SignInRefused, match="took too long"):
        await client.finish(answer, sign_in, NOW + WITHIN_MS)


async def test_what_an_issuer_writes_into_an_error_is_not_repeated(client: IssuerClient) -> None:
    sign_in, answer = await returned(client)
    with pytest.raises(SignInRefused, match="an error of its own") as refusal:
        await client.finish(answer | {"error": "<script>"}, sign_in, NOW)
    assert "script" not in str(refusal.value)


async def test_an_issuer_that_never_names_itself_need_not(
    client: IssuerClient, issuer: LocalIssuer
) -> None:
    issuer.document, issuer.named = {"authorization_response_iss_parameter_supported": None}, ""
    assert (await signed_in(client)).claims["sub"] == "ada"


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"issuer": "https://elsewhere.example"}, "names another issuer"),
        ({"token_endpoint": "http://elsewhere.example/token"}, "token_endpoint is no https"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint is no https"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri is no https"),
        ({"jwks_uri": None}, "jwks_uri is no https"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"id_token_signing_alg_values_supported": ["HS256", "none"]}, "public key"),
    ],
)
async def test_an_issuer_whose_metadata_cannot_be_trusted_is_not_used(
    client: IssuerClient, issuer: LocalIssuer, document: dict[str, Any], why: str
) -> None:
    issuer.document = document
    with pytest.raises(IssuerUnavailable, match=why):
        await returned(client)


async def _redirects(_: web.Request) -> web.Response:
    raise web.HTTPFound("http://127.0.0.1:1/elsewhere")


async def _packed(_: web.Request) -> web.Response:
    return web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})


async def _refuses(_: web.Request) -> web.Response:
    return web.json_response({"error": "<b>down</b>"}, status=500)


@pytest.mark.parametrize("answer", [hangs, endless, _redirects, _packed, _refuses])
@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/jwks", "/token"])
async def test_an_issuer_that_does_not_answer_as_it_must_ends_the_sign_in(
    client: IssuerClient,
    issuer: LocalIssuer,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    answer: Callable[[web.Request], Any],
) -> None:
    monkeypatch.setattr(answers, "WITHIN_SECONDS", 0.2 if answer is hangs else 5.0)
    issuer.answers[path] = answer
    async with asyncio.timeout(10):
        with pytest.raises(IssuerUnavailable) as unavailable:
            await signed_in(client)
    assert "down" not in str(unavailable.value)


async def test_many_people_ask_a_hanging_issuer_once(
    client: IssuerClient, issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "WITHIN_SECONDS", 0.2)
    issuer.answers["/.well-known/openid-configuration"] = hangs
    tries = await asyncio.gather(*(returned(client) for _ in range(50)), return_exceptions=True)
    assert all(isinstance(each, IssuerUnavailable) for each in tries)
    assert issuer.calls["/.well-known/openid-configuration"] == 1


async def test_a_person_is_asked_for_again_with_a_refresh_token(
    client: IssuerClient, issuer: LocalIssuer
) -> None:
    found = await signed_in(client)
    issuer.person.groups = ["audit"]
    again = await client.renew(found.refresh_token or "", "ada", found.claims["nonce"])
    assert (again.claims["groups"], again.refresh_token != found.refresh_token) == (["audit"], True)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"sub": "eve"}, "token-subject"),
        ({"nonce": "of another sign-in"}, "token-nonce"),
        ({"aud": "another"}, "token-audience"),
    ],
)
async def test_a_renewed_token_is_of_the_same_person(
    client: IssuerClient, issuer: LocalIssuer, claims: dict[str, Any], reason: str
) -> None:
    found = await signed_in(client)
    issuer.claims = claims
    with pytest.raises(SignInRefused) as refusal:
        await client.renew(found.refresh_token or "", "ada", found.claims["nonce"])
    assert refusal.value.reason == reason


async def test_a_renewed_token_may_have_no_nonce(client: IssuerClient, issuer: LocalIssuer) -> None:
    found = await signed_in(client)
    issuer.claims = {"nonce": None}
    again = await client.renew(found.refresh_token or "", "ada", found.claims["nonce"])
    assert again.claims["sub"] == "ada"


async def test_a_withdrawn_refresh_token_ends_it(client: IssuerClient) -> None:
    with pytest.raises(SignInRefused) as refusal:
        await client.renew("withdrawn", "ada", "n")
    assert refusal.value.reason == "code-refused"


async def test_a_client_that_the_issuer_does_not_know_is_no_fault_of_the_person(
    issuer: LocalIssuer,
) -> None:
    configured = Issuer("corp", issuer.url, CLIENT, RETURN, lambda: "wrong")
    async with session_for_issuers() as session:
        with pytest.raises(IssuerUnavailable, match="invalid_client"):
            await signed_in(IssuerClient(configured, Calls(session)))
