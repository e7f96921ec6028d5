"""No token makes the check of ID tokens fail in another way than by refusing it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey
from support.local_issuer import base64url

from streams.access.oidc.id_token import Expected, Keys, verified
from streams.access.oidc.issuer import Issuer
from streams.access.oidc.metadata import PUBLIC_KEY_ALGORITHMS, Metadata
from streams.access.oidc.signing_keys import SigningKey, signing_keys
from streams.errors import SignInRefused

KEY = ECKey.generate_key("P-256", parameters={"kid": "k"})
PUBLISHED = signing_keys({"keys": [KEY.as_dict(private=False)]})
ISSUER = Issuer("corp", "https://login.example.com", "tidegate", "https://ops/back", lambda: None)
ABOUT = Metadata("a", "t", "j", PUBLIC_KEY_ALGORITHMS, posts_secret=False, names_itself=True)
NOW = 1_700_000_000.0
SOUND = {
    "iss": ISSUER.url,
    "aud": "tidegate",
    "sub": "ada",
    "nonce": "n",
    "iat": NOW,
    "exp": NOW + 9,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


async def published() -> Sequence[SigningKey]:
    return PUBLISHED


async def taken(token: str) -> bool:
    """Whether a token holds; any error but a refusal is a fault."""
    try:
        await verified(token, ISSUER, ABOUT, Keys(published, published), Expected("n"), NOW)
    except SignInRefused:
        return False
    return True


def signed(claims: Any) -> str:
    return jws.serialize_compact({"alg": "ES256", "kid": "k"}, json.dumps(claims).encode(), KEY)


async def test_a_sound_token_holds() -> None:
    assert await taken(signed(SOUND))


@given(st.sampled_from(sorted(SOUND)), JSON)
async def test_a_claim_of_any_kind_is_refused_or_means_the_same(name: str, value: Any) -> None:
    if await taken(signed(SOUND | {name: value})):
        assert name in ("iat", "exp", "sub") or value == SOUND[name] or value == [SOUND[name]]


@given(JSON)
async def test_content_of_any_kind_is_refused(content: Any) -> None:
    assert not await taken(signed(content))


@given(JSON, st.dictionaries(st.sampled_from(["alg", "kid", "crit", "b64", "typ"]), JSON))
async def test_a_header_of_any_kind_is_refused(whole: Any, members: dict[str, Any]) -> None:
    body = signed(SOUND).split(".", 1)[1]
    for header in (whole, members, {"alg": "ES256", "kid": "k", **members}):
        text = base64url(json.dumps(header).encode())
        if header != {"alg": "ES256", "kid": "k"}:
            assert not await taken(f"{text}.{body}")


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.sampled_from(["", ".", "..", "..x"]))
async def test_text_of_any_kind_is_refused(text: str, end: str) -> None:
    assert not await taken(text + end)


@given(JSON, JSON)
def test_keys_of_any_kind_are_passed_over(whole: Any, key: Any) -> None:
    for document in ({"keys": whole}, {"keys": [key]}, {"keys": [{"kty": "EC", "crv": key}]}):
        assert signing_keys(document) == ()
    with_odd = {"keys": [key, KEY.as_dict(private=False)]}
    assert [each.id for each in signing_keys(with_odd)] == ["k"]
