"""People who sign in: from the issuer's word to a session, and from a session to a principal."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from streams.access.grants import GroupGrants
from streams.access.oidc import authorization
from streams.access.oidc.authorization import SignIn
from streams.access.oidc.client import IssuerClient, SignedIn
from streams.access.principal import Principal
from streams.access.renewals import Renewals
from streams.access.sealed_cookies import MOST_CHARS, SealedCookies
from streams.access.session import Session, decoded, of_token, person_id, random_id
from streams.access.session_ends import SessionEnds
from streams.errors import SignInRefused

_LONGEST_NAME = 200
_NAMES = ("name", "preferred_username", "email", "sub")


@dataclass(frozen=True, slots=True)
class Desk:
    """One issuer with what its groups give here."""

    client: IssuerClient
    grants: GroupGrants


class People:
    """Belongs to one event loop; `now` is the wall clock in milliseconds.

    `standing` returns the principal of a token as it is now, None once the token has ended.
    """

    def __init__(
        self,
        desks: Mapping[str, Desk],
        cookies: SealedCookies,
        ends: SessionEnds,
        now: Callable[[], int],
        standing: Callable[[str], Principal | None] = lambda _: None,
    ) -> None:
        self.desks = desks
        self.ends = ends
        self._standing = standing
        self._cookies = cookies
        self._now = now
        self._renewals = Renewals(self._asked_again, now)

    async def begin(self, issuer: str, next_: str) -> tuple[SignIn, str]:
        """Return a new sign-in at an issuer, and where the browser goes for it.

        Raises:
            IssuerUnavailable: the issuer's metadata cannot be read.
        """
        client = self.desks[issuer].client
        sign_in = authorization.begin(client.issuer, next_, self._now())
        return sign_in, await client.authorization_url(sign_in)

    async def finish(self, answer: Mapping[str, str], sign_in: SignIn) -> Session:
        """Return the session of a person who comes back from the issuer.

        Raises:
            SignInRefused: what the person brings does not hold, or gives nothing here.
            IssuerUnavailable: the issuer does not answer.
        """
        desk = self.desks[sign_in.issuer]
        found = await desk.client.finish(answer, sign_in, self._now())
        now, groups = self._now(), _groups(desk, found)
        return Session(
            id=random_id(),
            issuer=sign_in.issuer,
            fingerprint=desk.client.issuer.fingerprint,
            subject=found.claims["sub"],
            name=_name(found.claims),
            groups=groups,
            nonce=sign_in.nonce,
            csrf_token=random_id(),
            refresh_token=found.refresh_token,
            started_at=now,
            checked_at=now,
            seen_at=now,
        )

    def enter(self, principal: Principal) -> Session:
        """Return a new session of whoever has a token."""
        return of_token(principal.id, principal.name, self._now())

    def sealed(self, session: Session) -> str:
        """Return the text of a session's cookie.

        A refresh token that makes it too long is left out: the person then signs in again when the
        groups must be asked for.
        """
        text = self._cookies.seal(session.encoded())
        if len(text) > MOST_CHARS and session.refresh_token is not None:
            text = self._cookies.seal(replace(session, refresh_token=None).encoded())
        if len(text) > MOST_CHARS:
            raise SignInRefused("session-too-large", "the person's groups do not fit in a cookie")
        return text

    def opened(self, text: str) -> Session | None:
        """Return the session of a cookie; None if there is none, or it is over."""
        plain = self._cookies.open(text)
        session = None if plain is None else decoded(plain)
        if session is None or self._now() >= session.ends_at or not self._is_known(session):
            return None
        return session

    async def current(self, session: Session, *, is_use: bool = True) -> tuple[Session, Principal]:
        """Return an open session as it is now, and who that is.

        A call that is no use of the session, because no person made it, does not prolong it.

        Raises:
            SignInRefused: the person has no access any more.
            IssuerUnavailable: the issuer has not confirmed the person for too long.
        """
        found = await self._renewals.of(session) if session.issuer else session
        principal = self._principal(found)
        return (found.seen(self._now()) if is_use else found), principal

    def stands(self, session: Session) -> bool:
        """Return whether what a session opened may stay open without a further call.

        It may until the person's groups must be asked for again, unless another call had them
        asked for, and they give what they gave.
        """
        if not session.issuer:
            return self._is_known(session) and self._now() < session.ends_at
        newest = self._renewals.newest(session)
        if not self._is_known(session) or self._renewals.is_refused(newest):
            return False
        if self._now() >= newest.reliable_until:
            return False
        grants = self.desks[session.issuer].grants
        return grants.of(newest.groups) == grants.of(session.groups)

    def _is_known(self, session: Session) -> bool:
        """Return whether the issuer is still there, and nobody has ended the session."""
        if not session.issuer:
            return self._standing(session.subject) is not None and not self.ends.has_ended(session)
        desk = self.desks.get(session.issuer)
        if desk is None or desk.client.issuer.fingerprint != session.fingerprint:
            return False
        return not self.ends.has_ended(session)

    def _principal(self, session: Session) -> Principal:
        if not session.issuer:
            principal = self._standing(session.subject)
            if principal is None:
                raise SignInRefused("token-ended", "the token of this session has ended")
            return principal
        granted = self.desks[session.issuer].grants.of(session.groups)
        if granted is None:
            raise _nothing_granted(session.person)
        return Principal(
            session.person, session.name, granted.role, granted.permissions, granted.tenants
        )

    async def _asked_again(self, session: Session) -> Session:
        desk, asked = self.desks[session.issuer], session.refresh_token or ""
        found = await desk.client.renew(asked, session.subject, session.nonce)
        return replace(
            session,
            name=_name(found.claims),
            groups=_groups(desk, found),
            refresh_token=found.refresh_token,
            checked_at=self._now(),
        )


def _groups(desk: Desk, found: SignedIn) -> tuple[str, ...]:
    """Return the groups of a person that give something here.

    Raises:
        SignInRefused: none does.
    """
    given = found.claims.get(desk.client.issuer.groups_claim)
    listed = [given] if isinstance(given, str) else given
    named = [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
    groups = desk.grants.relevant(named)
    if desk.grants.of(groups) is None:
        raise _nothing_granted(person_id(desk.client.issuer.name, found.claims["sub"]))
    return groups


def _nothing_granted(person: str) -> SignInRefused:
    why = "the issuer knows you, but none of your groups has a role here: ask an administrator"
    return SignInRefused("no-role", why, person=person)


def _name(claims: Mapping[str, Any]) -> str:
    """Return a person's name for people to read, without what would change how it is shown."""
    found = next((claims[name] for name in _NAMES if isinstance(claims.get(name), str)), "")
    shown = "".join(c for c in found if unicodedata.category(c)[0] != "C")
    return shown[:_LONGEST_NAME]
