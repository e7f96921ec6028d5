"""Signs people in at one issuer: it redeems codes, and asks again with refresh tokens."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote_plus

import structlog

from streams.access.oidc import authorization
from streams.access.oidc.answers import Answer, Calls
from streams.access.oidc.authorization import SignIn, error_name
from streams.access.oidc.id_token import Claims, Expected, Keys, verified
from streams.access.oidc.issuer import Issuer
from streams.access.oidc.kept_answer import KeptAnswer
from streams.access.oidc.metadata import Metadata, address, metadata
from streams.access.oidc.signing_keys import SigningKey, signing_keys
from streams.errors import IssuerUnavailable, SignInRefused

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A person whom the issuer vouches for; the refresh token asks it again later."""

    claims: Claims
    refresh_token: str | None = field(repr=False)


class IssuerClient:
    """One issuer's client; belongs to one event loop.

    `now` is the time of tokens (Unix, seconds); `clock` runs evenly.
    """

    def __init__(
        self,
        issuer: Issuer,
        calls: Calls,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.issuer = issuer
        self._calls = calls
        self._now = now
        self._about = KeptAnswer(self._read_metadata, clock)
        self._keys = KeptAnswer(self._read_keys, clock)

    async def authorization_url(self, sign_in: SignIn) -> str:
        """Return where the browser goes.

        Raises:
            IssuerUnavailable: the issuer's metadata cannot be read.
        """
        return authorization.authorization_url(self.issuer, await self._about.get(), sign_in)

    async def finish(self, answer: Mapping[str, str], sign_in: SignIn, at: int) -> SignedIn:
        """Return the person of a sign-in, from what the browser brought back at a time (ms).

        Raises:
            SignInRefused: the answer, its code or the person's token does not hold.
            IssuerUnavailable: the issuer does not answer.
        """
        about = await self._about.get()
        code = authorization.code_of(answer, self.issuer, about, sign_in, at)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.issuer.redirect_uri,
            "code_verifier": sign_in.verifier,
        }
        return await self._redeemed(about, form, Expected(sign_in.nonce), None)

    async def renew(self, refresh_token: str, subject: str, nonce: str) -> SignedIn:
        """Return what the issuer says of a person now.

        Raises:
            SignInRefused: it vouches for the person no more.
            IssuerUnavailable: the issuer does not answer.
        """
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        about, expected = await self._about.get(), Expected(nonce, subject)
        return await self._redeemed(about, form, expected, refresh_token)

    async def _redeemed(
        self, about: Metadata, form: dict[str, str], expected: Expected, kept: str | None
    ) -> SignedIn:
        """Return the person of a grant; `kept` is the refresh token unless a new one comes."""
        headers = self._authentication(about, form)
        found = await self._calls.post(about.token_endpoint, form, headers)
        if found.status != 200:
            raise self._not_redeemed(found)
        token, refresh = found.body.get("id_token"), found.body.get("refresh_token")
        if not isinstance(token, str):
            raise SignInRefused("token-missing", "the issuer sent no ID token")
        keys = Keys(self._keys.get, self._keys.newer)
        claims = await verified(token, self.issuer, about, keys, expected, self._now())
        return SignedIn(claims, refresh if isinstance(refresh, str) else kept)

    def _authentication(self, about: Metadata, form: dict[str, str]) -> dict[str, str]:
        """Return the headers of a grant, and put into its form what belongs there."""
        secret = self.issuer.secret()
        if secret is not None and not about.posts_secret:
            pair = f"{quote_plus(self.issuer.client_id)}:{quote_plus(secret)}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        form["client_id"] = self.issuer.client_id
        if secret is not None:
            form["client_secret"] = secret
        return {}

    def _not_redeemed(self, found: Answer) -> SignInRefused | IssuerUnavailable:
        name = error_name(found.body.get("error"))
        if name == "invalid_grant":
            return SignInRefused("code-refused", "the issuer takes the code or token no more")
        log.warning("an issuer refuses this client", issuer=self.issuer.name, reason=name)
        return IssuerUnavailable(f"issuer {self.issuer.name} answers {found.status}: {name}")

    async def _read_metadata(self) -> Metadata:
        return metadata(self.issuer, await self._calls.get(address(self.issuer)))

    async def _read_keys(self) -> Sequence[SigningKey]:
        about = await self._about.get()
        return signing_keys(await self._calls.get(about.jwks_uri))
