"""The session of a person who signed in: it lies whole in a sealed cookie, and nowhere else.

So any operator can open it, and none has to remember it. What ends one early is kept on the topic
`tenants` (`session_ends.py`).
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import orjson

IDLE_MS = 30 * 60_000
"""A session ends after so long without a call."""

ABSOLUTE_MS = 12 * 3_600_000
"""A session ends so long after the sign-in, whatever happens."""

RECHECK_FROM_MS, RECHECK_BY_MS = 10 * 60_000, 15 * 60_000
"""From the first on, the issuer is asked again for the person's groups; without its answer the
session is not used after the second."""

SEEN_AGAIN_MS = 60_000
"""A cookie is replaced at most so often only because it was used."""

_VERSION = 1
_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Session:
    """One sign-in of one person; times in milliseconds. `groups` are those that give something.

    One without an issuer was opened with a token: `subject` is then the token's principal.
    """

    id: str
    issuer: str
    fingerprint: str
    subject: str
    name: str
    groups: tuple[str, ...]
    nonce: str = field(repr=False)
    csrf_token: str = field(repr=False)
    refresh_token: str | None = field(repr=False)
    started_at: int
    checked_at: int
    seen_at: int

    @property
    def person(self) -> str:
        """The person's id as a principal, or that of the token."""
        return person_id(self.issuer, self.subject) if self.issuer else self.subject

    @property
    def ends_at(self) -> int:
        """When the session ends if it is not used any more."""
        return min(self.seen_at + IDLE_MS, self.started_at + ABSOLUTE_MS)

    @property
    def reliable_until(self) -> int:
        """How long the person's groups may be taken for granted."""
        return min(self.checked_at + RECHECK_BY_MS, self.started_at + ABSOLUTE_MS)

    def is_due(self, now: int) -> bool:
        """Return whether the issuer is to be asked for the person's groups again."""
        return now >= self.checked_at + RECHECK_FROM_MS

    def seen(self, now: int) -> Session:
        """Return the session after a call; the very same one if it need not be written anew."""
        is_new = now >= self.seen_at + SEEN_AGAIN_MS
        return replace(self, seen_at=now) if is_new else self

    def encoded(self) -> bytes:
        return orjson.dumps({"v": _VERSION, **asdict(self)})


def person_id(issuer: str, subject: str) -> str:
    """Return a person's id as a principal: two issuers may have the same subject."""
    return f"person:{issuer}:{subject}"


def of_token(principal_id: str, name: str, now: int) -> Session:
    """Return a new session of whoever has a token, which can do what the token can."""
    return Session(
        id=random_id(),
        issuer="",
        fingerprint="",
        subject=principal_id,
        name=name,
        groups=(),
        nonce="",
        csrf_token=random_id(),
        refresh_token=None,
        started_at=now,
        checked_at=now,
        seen_at=now,
    )


def decoded(text: bytes) -> Session | None:
    """Return a session that was encoded here; None for one of another version."""
    found: dict[str, Any] = orjson.loads(text)
    if found.pop("v", None) != _VERSION:
        return None
    try:
        return Session(**found | {"groups": tuple(found["groups"])})
    except (KeyError, TypeError):
        return None


def random_id() -> str:
    """Return what nobody can guess: a session's id, or its CSRF token."""
    return secrets.token_urlsafe(_ID_BYTES)
