"""What an issuer says of itself (OpenID Connect Discovery 1.0), as far as a sign-in needs it."""

from __future__ import annotations

from dataclasses import dataclass

from streams.access.oidc.answers import Json
from streams.access.oidc.issuer import Issuer
from streams.errors import IssuerUnavailable

PUBLIC_KEY_ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""Signatures that a token may have: neither `none`, nor HMAC, whose key could be a public one."""

_PATH = "/.well-known/openid-configuration"
_IN_HEADER = "client_secret_basic"
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


@dataclass(frozen=True, slots=True)
class Metadata:
    """An issuer's endpoints, and what it can do."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    algorithms: tuple[str, ...]
    posts_secret: bool
    """Whether the client's secret goes into the form, not into a header."""
    names_itself: bool
    """Whether every answer to the browser names the issuer (RFC 9207)."""


def address(issuer: Issuer) -> str:
    """Return where an issuer publishes its metadata."""
    return issuer.url.rstrip("/") + _PATH


def metadata(issuer: Issuer, document: Json) -> Metadata:
    """Return what a document says.

    Raises:
        IssuerUnavailable: it is another issuer's, or this issuer cannot be used.
    """
    if document.get("issuer") != issuer.url:
        raise _unusable(issuer, "its metadata names another issuer; configure that name")
    for name in _ENDPOINTS:
        if not issuer.may_call(document.get(name)):
            raise _unusable(issuer, f"its {name} is no https URL")
    methods = _texts(document, "code_challenge_methods_supported", ("S256",))
    if "S256" not in methods:
        raise _unusable(issuer, "it does not take PKCE with S256")
    offered = _texts(document, "id_token_signing_alg_values_supported", PUBLIC_KEY_ALGORITHMS)
    algorithms = tuple(name for name in PUBLIC_KEY_ALGORITHMS if name in offered)
    if not algorithms:
        raise _unusable(issuer, "it signs with no public key that Tidegate knows")
    takes = _texts(document, "token_endpoint_auth_methods_supported", (_IN_HEADER,))
    return Metadata(
        authorization_endpoint=document["authorization_endpoint"],
        token_endpoint=document["token_endpoint"],
        jwks_uri=document["jwks_uri"],
        algorithms=algorithms,
        posts_secret=_IN_HEADER not in takes,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _texts(document: Json, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return a list of texts; an issuer that does not publish it has the default."""
    found = document.get(name)
    if not isinstance(found, list):
        return default
    return tuple(each for each in found if isinstance(each, str))


def _unusable(issuer: Issuer, why: str) -> IssuerUnavailable:
    return IssuerUnavailable(f"issuer {issuer.name} cannot be used: {why}")
