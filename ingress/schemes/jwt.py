"""`jwt`: `Authorization: Bearer <token>`, a JSON Web Token (RFC 7519) bound to the body's hash.

The source's secret is a JSON Web Key Set of public keys, so nothing is fetched. A claim holds the
SHA-256 of the raw body, in hex or base64, with either alphabet. `exp` is required; `exp`, `nbf`,
`iss` and `aud` are enforced. Only public-key signatures are accepted (RFC 8725, section 3.1):
neither `none` nor HMAC, whose key could be a public one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from functools import partial
from typing import Any

import orjson
from joserfc import jws
from joserfc.errors import ExpiredTokenError, JoseError, UnsupportedAlgorithmError
from joserfc.jwk import ECKey, RSAKey
from joserfc.jwt import JWTClaimsRegistry
from pydantic import Field

from ingress.schemes.challenges import GenericOptions, webhook_validation
from ingress.schemes.key_sets import PUBLIC_KEY_ALGORITHMS, AsymmetricKey, key_set, private_key
from ingress.schemes.preset import GENERIC
from ingress.schemes.request import (
    SignedRequest,
    Verified,
    header,
    holding_key,
    raw,
    require,
    with_headers,
)
from ingress.schemes.scheme import Scheme
from streams.errors import SignatureError

HEADER = "Authorization"
_LIFETIME_SECONDS = 300
_CLOCK_SKEW_SECONDS = 5
"""How far a sender's clock may be ahead, because senders set `nbf` to their own present time."""


class _Registry(jws.JWSRegistry):
    """Accepts only algorithms of public keys, and `EdDSA` without a warning for each request."""

    def get_alg(self, name: str) -> Any:
        if name not in PUBLIC_KEY_ALGORITHMS:
            raise UnsupportedAlgorithmError
        return self.algorithms[name]


_REGISTRY = _Registry(strict_check_header=False)


class JwtOptions(GenericOptions):
    """Options of a source with the scheme `jwt`.

    `body_claim` names the claim that holds the body's SHA-256. With `issuer` or `audience` the
    token must name it; without `audience` it may name none.
    """

    body_claim: str = Field(default="body_sha256", min_length=1, max_length=64)
    issuer: str | None = Field(default=None, min_length=1)
    audience: str | None = Field(default=None, min_length=1)


def check(options: JwtOptions, secrets: Sequence[bytes], request: SignedRequest) -> Verified:
    """Verify one request; raises `SignatureError` alone."""
    given = header(request, HEADER)
    kind, _, token = (given or "").partition(" ")
    found: list[dict[str, Any]] = []

    def holds(secret: bytes) -> bool:
        found.append(_claims(token.strip(), key_set(secret)))
        return bool(found[-1])

    held = holding_key(secrets, holds)
    index = require(held, given, HEADER, well_formed=kind.lower() == "bearer")
    _enforce(options, found[index], request)
    issued = found[index].get("iat")
    return Verified(index, float(issued) if isinstance(issued, int | float) else None)


def sign(options: JwtOptions, secret: bytes, request: SignedRequest) -> SignedRequest:
    """Sign one request under the first key of a private JSON Web Key Set, for five minutes."""
    key = private_key(secret)
    digest = hashlib.sha256(request.body).hexdigest()
    now = int(request.now)
    claims = {"iat": now, "exp": now + _LIFETIME_SECONDS, options.body_claim: digest}
    claims |= {"iss": options.issuer} if options.issuer else {}
    claims |= {"aud": options.audience} if options.audience else {}
    algorithm = {"alg": _algorithm(key)}
    token = jws.serialize_compact(algorithm, orjson.dumps(claims), key, registry=_REGISTRY)
    return with_headers(request, {HEADER: f"Bearer {token}"})


def _claims(token: str, keys: Sequence[AsymmetricKey]) -> dict[str, Any]:
    """The claims of a token that one of the keys signed, else an empty dict.

    A missing token is checked all the same, so that it takes as long as a wrong one.
    """
    text = raw(token or _stand_in(keys[0]))
    for key in keys:
        try:
            claims = orjson.loads(jws.deserialize_compact(text, key, registry=_REGISTRY).payload)
        except Exception:  # noqa: S112  a stranger's token can make it raise anything
            continue
        return claims if isinstance(claims, dict) else {}
    return {}


def _enforce(options: JwtOptions, claims: dict[str, Any], request: SignedRequest) -> None:
    now = int(request.now)
    rules: dict[str, Any] = {"exp": {"essential": True}}
    if options.issuer is not None:
        rules["iss"] = {"essential": True, "value": options.issuer}
    # A token for an unknown audience is meant for somebody else (RFC 7519, section 4.1.3).
    rules["aud"] = {"essential": options.audience is not None, "values": [options.audience]}
    try:
        JWTClaimsRegistry(now, **rules).validate(_only(claims, "exp", "iss", "aud"))
        JWTClaimsRegistry(now + _CLOCK_SKEW_SECONDS).validate(_only(claims, "nbf"))
    except ExpiredTokenError:
        raise SignatureError("stale", "the token has expired") from None
    except (JoseError, TypeError):
        detail = "the token's exp, nbf, iss or aud does not hold"
        raise SignatureError("bad_claim", detail) from None
    if not _is_hash_of(claims.get(options.body_claim), request.body):
        raise SignatureError("mismatch", f"the token's {options.body_claim} is not of this body")


def _only(claims: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: claims[name] for name in names if name in claims}


def _is_hash_of(claim: object, body: bytes) -> bool:
    digest = hashlib.sha256(body).digest()
    given = raw(claim).rstrip(b"=") if isinstance(claim, str) else b""
    forms = (digest.hex().encode(), base64.b64encode(digest), base64.urlsafe_b64encode(digest))
    return any(hmac.compare_digest(form.rstrip(b"="), given) for form in forms)


def _stand_in(key: AsymmetricKey) -> str:
    header = base64.urlsafe_b64encode(orjson.dumps({"alg": _algorithm(key)})).rstrip(b"=").decode()
    return f"{header}.e30.{'A' * 86}"


def _algorithm(key: AsymmetricKey) -> str:
    if isinstance(key, ECKey):
        return {"P-384": "ES384", "P-521": "ES512"}.get(key.curve_name, "ES256")
    return "RS256" if isinstance(key, RSAKey) else "Ed25519"


SCHEME = Scheme(
    GENERIC,
    lambda options: partial(check, options),
    lambda options: partial(sign, options),
    options=JwtOptions,
    decode_secret=key_set,
    public_key=True,
    challenge=webhook_validation,
)
