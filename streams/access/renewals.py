"""Asks issuers again for the groups of people whose sessions are under way.

An issuer may take a refresh token only once. So the calls of one session share one question, and a
call that still has the older cookie gets what was answered to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from streams.access.session import IDLE_MS, RECHECK_BY_MS, Session
from streams.errors import IssuerUnavailable, SignInRefused

AGAIN_MS = 10_000
"""An issuer that did not answer is left alone for so long."""

_NOTHING_SAID = frozenset({"session-over", "token-missing"})
"""Refusals without a word of the issuer about the person: it was not asked, or gave no ID token."""

Ask = Callable[[Session], Awaitable[Session]]


@dataclass(frozen=True, slots=True)
class _Failure:
    error: SignInRefused | IssuerUnavailable
    at: int

    def holds(self, now: int) -> bool:
        return isinstance(self.error, SignInRefused) or now < self.at + AGAIN_MS


class Renewals:
    """Belongs to one event loop; `ask` returns a session as its issuer confirms it."""

    def __init__(self, ask: Ask, clock: Callable[[], int]) -> None:
        self._ask = ask
        self._clock = clock
        self._newest: dict[str, Session] = {}
        self._failures: dict[tuple[str, int], _Failure] = {}
        self._asked: dict[str, asyncio.Task[Session]] = {}

    async def of(self, session: Session) -> Session:
        """Return a session whose person the issuer has confirmed lately.

        Raises:
            SignInRefused: the issuer no longer vouches for the person, or cannot be asked without
                them.
            IssuerUnavailable: it has not answered for longer than that may be.
        """
        newest, now = self.newest(session), self._clock()
        if not newest.is_due(now):
            return newest
        try:
            if newest.refresh_token is None:
                raise SignInRefused("session-over", "sign in again: your groups are asked anew")
            return await self._renewed(newest)
        except (SignInRefused, IssuerUnavailable) as error:
            if _says_nothing(error) and now < newest.checked_at + RECHECK_BY_MS:
                return newest
            raise

    def newest(self, session: Session) -> Session:
        """Return a session as its issuer has confirmed it last, as far as this process knows."""
        kept = self._newest.get(session.id)
        if kept is None or kept.checked_at <= session.checked_at:
            return session
        return replace(kept, seen_at=max(kept.seen_at, session.seen_at))

    def is_refused(self, session: Session) -> bool:
        """Return whether the issuer has said that it vouches for a session's person no more."""
        failure = self._failures.get((session.id, session.checked_at))
        return failure is not None and not _says_nothing(failure.error)

    async def _renewed(self, session: Session) -> Session:
        failure = self._failures.get((session.id, session.checked_at))
        if failure is not None and failure.holds(self._clock()):
            raise failure.error
        if session.id not in self._asked:
            self._forget_old()
            self._asked[session.id] = asyncio.create_task(self._ask_once(session))
        return await asyncio.shield(self._asked[session.id])

    async def _ask_once(self, session: Session) -> Session:
        try:
            renewed = await self._ask(session)
        except (SignInRefused, IssuerUnavailable) as error:
            failure = _Failure(error, self._clock())
            self._failures[session.id, session.checked_at] = failure
            raise
        finally:
            del self._asked[session.id]
        self._newest[session.id] = renewed
        return renewed

    def _forget_old(self) -> None:
        """Drop what belongs to sessions that nobody used for so long that they are over."""
        since = self._clock() - IDLE_MS - RECHECK_BY_MS
        self._newest = {id_: s for id_, s in self._newest.items() if s.checked_at > since}
        self._failures = {key: f for key, f in self._failures.items() if f.at > since}


def _says_nothing(error: SignInRefused | IssuerUnavailable) -> bool:
    """Return whether an error leaves open what the issuer thinks of the person."""
    return isinstance(error, IssuerUnavailable) or error.reason in _NOTHING_SAID
