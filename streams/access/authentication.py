"""Tells who calls by what they send, and whether they may still be served."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from streams.access.book import LISTED_MS, AccessBook
from streams.access.permissions import OPERATE
from streams.access.principal import BOOTSTRAP, Principal
from streams.access.tokens import parse

Withdrawn = Literal["expired", "revoked", "restricted"]
"""Why a principal may operate no more; a `restricted` token has kept other permissions, or none."""

_TOKEN = "token:"  # noqa: S105  the beginning of a principal's id


@dataclass(frozen=True, slots=True)
class Denied:
    """Why a token opens nothing. `expired` and `revoked` are told to its holder alone."""

    reason: Literal["unknown", "expired", "revoked"]


class Authentication:
    """The bootstrap token, if it is on, and the tokens of the book; `now` is in milliseconds."""

    def __init__(self, bootstrap: str | None, book: AccessBook, now: Callable[[], int]) -> None:
        self.book = book
        self._bootstrap = None if bootstrap is None else _digest(bootstrap)
        self._now = now
        self._used: dict[str, int] = {}

    @property
    def takes_bootstrap(self) -> bool:
        """Whether the bootstrap token opens anything."""
        return self._bootstrap is not None

    def of_token(self, text: str) -> Principal | Denied:
        """Return who sends a token."""
        token = parse(text)
        if token is None:
            return self._of_bootstrap(text)
        grant = self.book.grant(token.id)
        if not token.matches(None if grant is None else grant.digest) or grant is None:
            return Denied("unknown")
        now = self._now()
        ended = grant.has_ended(now)
        if ended is not None:
            return Denied(ended)
        self._used[grant.id] = now
        return self.book.principal(grant)

    def standing(self, principal_id: str) -> Principal | None:
        """Return a principal of a token as it is now; None once its token has ended."""
        if principal_id == BOOTSTRAP.id:
            return BOOTSTRAP if self.takes_bootstrap else None
        if not principal_id.startswith(_TOKEN):
            return None
        grant = self.book.grant(principal_id.removeprefix(_TOKEN))
        if grant is None or grant.has_ended(self._now()) is not None:
            return None
        return self.book.principal(grant)

    def is_revoked(self, principal_id: str) -> bool:
        """Return whether somebody has taken from a principal's token what it was to do."""
        return self.withdrawn(principal_id, self._now()) in ("revoked", "restricted")

    def withdrawn(self, principal_id: str, asked_at: int) -> Withdrawn | None:
        """Return why a principal who asked for something (ms) may operate no more; None if it may.

        Of a person nothing is known after the call.
        """
        if principal_id == BOOTSTRAP.id:
            return None if self.takes_bootstrap else "revoked"
        if not principal_id.startswith(_TOKEN):
            return None
        grant = self.book.grant(principal_id.removeprefix(_TOKEN))
        if grant is None:  # it ended long ago, or is so new that this process has not heard of it
            return "expired" if asked_at + LISTED_MS <= self._now() else None
        may = OPERATE in self.book.permissions(grant)
        return grant.has_ended(self._now()) or (None if may else "restricted")

    def expires_at(self, principal_id: str) -> int | None:
        """Return when the token of a principal ends; None for one that has no such end."""
        grant = self.book.grant(principal_id.removeprefix(_TOKEN))
        return None if grant is None or grant.principal_id != principal_id else grant.expires_at

    def used_at(self, token_id: str) -> int | None:
        """Return when a token was used last, as far as this process knows."""
        known = (self._used.get(token_id), self.book.used_at(token_id))
        return max((at for at in known if at is not None), default=None)

    def note_use(self, token_id: str) -> None:
        """Note that a token is in use now."""
        self._used[token_id] = self._now()

    def unwritten_uses(self, since_ms: int) -> dict[str, int]:
        """Return the uses that the book has not, or has only from `since_ms` before them."""
        return {
            token_id: at
            for token_id, at in list(self._used.items())
            if at - (self.book.used_at(token_id) or 0) >= since_ms
        }

    def _of_bootstrap(self, text: str) -> Principal | Denied:
        expected = self._bootstrap
        if expected is not None and hmac.compare_digest(_digest(text), expected):
            return BOOTSTRAP
        return Denied("unknown")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
