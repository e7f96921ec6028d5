"""An issuer that people sign in with, as this deployment has configured it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Issuer:
    """One issuer; `url` is its identifier, exactly as its tokens name it.

    `name` stands in the ids of its people, so two issuers never share a person. `secret` returns
    the client's secret, or None for a public client; it is called for each exchange, so that a
    rotated file counts at once.
    """

    name: str
    url: str
    client_id: str
    redirect_uri: str
    secret: Callable[[], str | None] = field(repr=False)
    groups_claim: str = "groups"
    scopes: tuple[str, ...] = ("openid", "profile", "email")

    @property
    def fingerprint(self) -> str:
        """What a session keeps of it: a session ends when the name comes to mean another issuer."""
        text = "\0".join((self.url, self.client_id))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def may_call(self, url: object) -> bool:
        """Return whether the issuer may name this URL as one of its own: https, or both local."""
        return isinstance(url, str) and is_safe(url, local=is_local(self.url))


def is_local(url: str) -> bool:
    """Return whether a URL leads to this machine."""
    try:
        return urlsplit(url).hostname in _LOOPBACK
    except ValueError:
        return False


def is_safe(url: str, *, local: bool = True) -> bool:
    """Return whether a URL is https, or http on this machine if `local` allows that."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    if not parts.hostname or parts.username is not None or parts.fragment or not url.isprintable():
        return False
    return parts.scheme == "https" or (local and parts.scheme == "http" and is_local(url))
