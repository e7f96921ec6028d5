"""Sends a browser to an issuer, and knows it again when it comes back.

What the browser brings back is checked against a sign-in that it has in a sealed cookie: `state`
binds it to that browser, `nonce` binds the token to it, and the PKCE verifier (RFC 7636) binds the
code to it. So whoever reads one of them on the way cannot use it elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from urllib.parse import urlencode

import orjson

from streams.access.oidc.issuer import Issuer
from streams.access.oidc.metadata import Metadata
from streams.errors import SignInRefused

WITHIN_MS = 10 * 60_000
"""How long a person may take at the issuer."""

_LONGEST_CODE = 8 * 1024
_RANDOM_BYTES = 32


@dataclass(frozen=True, slots=True)
class SignIn:
    """A sign-in that has begun: at which issuer, when (ms), and where the browser goes then."""

    issuer: str
    state: str
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    next: str
    started_at: int

    def encoded(self) -> bytes:
        return orjson.dumps(asdict(self))

    @property
    def challenge(self) -> str:
        """The digest of the verifier (RFC 7636, section 4.2, `S256`)."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def begin(issuer: Issuer, next_: str, now: int) -> SignIn:
    """Return a new sign-in at an issuer."""
    state, nonce, verifier = (secrets.token_urlsafe(_RANDOM_BYTES) for _ in range(3))
    return SignIn(issuer.name, state, nonce, verifier, next_, now)


def decoded(text: bytes) -> SignIn:
    """Return a sign-in that was encoded here; whoever opens its seal has checked that."""
    return SignIn(**orjson.loads(text))


def authorization_url(issuer: Issuer, about: Metadata, sign_in: SignIn) -> str:
    """Return where the browser goes."""
    query = {
        "response_type": "code",
        "client_id": issuer.client_id,
        "redirect_uri": issuer.redirect_uri,
        "scope": " ".join(issuer.scopes),
        "state": sign_in.state,
        "nonce": sign_in.nonce,
        "code_challenge": sign_in.challenge,
        "code_challenge_method": "S256",
    }
    joint = "&" if "?" in about.authorization_endpoint else "?"
    return f"{about.authorization_endpoint}{joint}{urlencode(query)}"


def code_of(
    answer: Mapping[str, str], issuer: Issuer, about: Metadata, sign_in: SignIn, now: int
) -> str:
    """Return the code that a browser brings back, if it belongs to the sign-in.

    An answer that another issuer gave is refused (RFC 9207): a code of one issuer must never reach
    another one's token endpoint.

    Raises:
        SignInRefused: it does not belong to it, or the issuer did not sign the person in.
    """
    if not _same(answer.get("state", ""), sign_in.state):
        raise SignInRefused("state-unknown", "the answer belongs to another sign-in: begin again")
    named = answer.get("iss")
    if named != issuer.url and (named is not None or about.names_itself):
        raise SignInRefused("issuer-mixed-up", "another issuer gave this answer: begin again")
    if now - sign_in.started_at >= WITHIN_MS:
        raise SignInRefused("sign-in-late", "the sign-in took too long: begin again")
    if "error" in answer:
        raise SignInRefused("issuer-refused", f"the issuer refuses: {error_name(answer['error'])}")
    code = answer.get("code", "")
    if not 0 < len(code) <= _LONGEST_CODE:
        raise SignInRefused("code-missing", "the issuer sent no code: begin again")
    return code


_ERRORS = frozenset(
    {
        "access_denied",
        "account_selection_required",
        "consent_required",
        "interaction_required",
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "login_required",
        "server_error",
        "temporarily_unavailable",
        "unauthorized_client",
        "unsupported_grant_type",
        "unsupported_response_type",
    }
)


def error_name(given: object) -> str:
    """Return an error by the name that the standards give it; nothing else of it is repeated."""
    return given if isinstance(given, str) and given in _ERRORS else "an error of its own"


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
