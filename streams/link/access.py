"""Admits workers to the link: by tokens with the permission `work`, or by a bootstrap token."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass

from streams.access.authentication import Authentication, Denied
from streams.access.book import AccessBook
from streams.access.failures import Failures, address_of
from streams.access.permissions import WORK
from streams.access.token_records import TokenGrant
from streams.access.tokens import parse
from streams.link.grant import Grant
from streams.process.wall_clock import wall_ms

BOOTSTRAP = Grant("", "bootstrap")
"""What the bootstrap token grants: everything."""

_DETAILS = {
    "missing": "send a worker's token as `Authorization: Bearer TOKEN`",
    "unknown": "the token sent is not known here: send one that `tidegate tokens create NAME "
    "--role worker` made",
    "expired": "the token sent has expired: make another one",
    "revoked": "the token sent is revoked: make another one",
}


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """Why a worker may not dial: a status of HTTP, and what to do about it."""

    status: int
    message: str
    retry_seconds: int = 0


class LinkAccess:
    """Tells what the token of a worker grants; any thread may ask.

    `is_known` says whether all tokens are known to this process. `now` is in milliseconds.
    """

    def __init__(
        self,
        book: AccessBook,
        bootstrap: str | None,
        is_known: Callable[[], bool],
        now: Callable[[], int] = wall_ms,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._book = book
        self._bootstrap = None if bootstrap is None else _digest(bootstrap)
        self._is_known = is_known
        self._now = now
        self._minted = Authentication(None, book, now)
        self._failures = Failures(clock)

    def authenticate(self, authorization: str | None, remote: str | None) -> Grant | NotAdmitted:
        """Return what the header `Authorization` of a peer grants, or why it grants nothing."""
        scheme, _, given = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            return NotAdmitted(401, _DETAILS["missing"])
        address, text = address_of(remote), given.strip()
        if parse(text) is not None:  # nobody guesses one, so failures elsewhere do not stop it
            return self._of_minted(text)
        seconds = self._failures.wait_seconds(address)
        if seconds:
            told = f"too many wrong tokens came from this address: try again in {seconds} s"
            return NotAdmitted(429, told, seconds)
        if self._bootstrap is not None and hmac.compare_digest(_digest(text), self._bootstrap):
            return BOOTSTRAP
        self._failures.failed(address)
        return NotAdmitted(401, _DETAILS["unknown"])

    def is_valid(self, grant: Grant) -> bool:
        """Return whether a connection may stay: its token still grants just this.

        A connection that stays uses its token.
        """
        if grant == BOOTSTRAP:
            return True
        found = self._book.grant(grant.id)
        is_valid = found is not None and self._granted(found) == grant
        if is_valid:
            self._minted.note_use(grant.id)
        return is_valid

    def unwritten_uses(self, since_ms: int) -> dict[str, int]:
        """Return when tokens were used (ms); see `Authentication.unwritten_uses`."""
        return self._minted.unwritten_uses(since_ms)

    def _of_minted(self, text: str) -> Grant | NotAdmitted:
        if not self._is_known():
            late = "this owner has not read the tokens to their end yet: dial again soon"
            return NotAdmitted(503, late, 1)
        found = self._minted.of_token(text)
        if isinstance(found, Denied):  # nobody guesses one, so it is no failure of the address
            return NotAdmitted(401, _DETAILS[found.reason])
        token = parse(text)
        grant = None if token is None else self._book.grant(token.id)
        granted = None if grant is None else self._granted(grant)
        if granted is None:
            told = (
                f"the token has the role {found.role}, which does not permit `{WORK}`: send one "
                "that `tidegate tokens create NAME --role worker` made"
            )
            return NotAdmitted(403, told)
        return granted

    def _granted(self, grant: TokenGrant) -> Grant | None:
        """Return what a token grants a worker now; None if that is nothing."""
        if grant.has_ended(self._now()) is not None or WORK not in self._book.permissions(grant):
            return None
        return Grant(grant.id, grant.name, grant.pools, grant.job_types, grant.tenants)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
