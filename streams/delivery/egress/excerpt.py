"""The beginning of an answer as text that is safe to keep and to show."""

from __future__ import annotations

import re
from collections.abc import Collection

LONGEST_EXCERPT = 1_024
REDACTED = "[redacted]"

_DECODED_BYTES = 8_192
_SHORTEST_SECRET = 4
_SECRETS = re.compile(
    r"wh(?:sec|sk)_[A-Za-z0-9+/=_-]+|\b(?P<scheme>bearer|basic)\s+[A-Za-z0-9._~+/=-]{4,}",
    re.IGNORECASE,
)


def excerpt(body: bytes, charset: str | None, redact: Collection[str]) -> str:
    """At most 1,024 printable characters of a body, without secrets.

    Characters that the charset does not decode are replaced, control characters and those that
    change the direction of text are removed. Each text of `redact` with at least 4 characters is
    replaced, as is what looks like a signing secret or a bearer token.
    """
    if not body:
        return ""
    return _redacted(printable(_decoded(body[:_DECODED_BYTES], charset)), redact)[:LONGEST_EXCERPT]


def printable(text: str) -> str:
    """The text in one line without unprintable characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)


def _decoded(body: bytes, charset: str | None) -> str:
    try:
        return body.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):
        return body.decode("utf-8", "replace")


def _redacted(text: str, redact: Collection[str]) -> str:
    # Longest first: a secret may contain another one.
    for secret in sorted(_spellings(redact), key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return _SECRETS.sub(lambda found: f"{found['scheme'] or ''} {REDACTED}".lstrip(), text)


def _spellings(redact: Collection[str]) -> set[str]:
    """Each secret, and a credential also without its scheme (`Bearer`, `Basic`)."""
    texts = {spelling for secret in redact for spelling in (secret, secret.rpartition(" ")[2])}
    return {text for text in map(printable, texts) if len(text) >= _SHORTEST_SECRET}
