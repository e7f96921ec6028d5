"""The beginning of an answer as text that is safe to keep and to show."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

LONGEST_EXCERPT = 1_024
REDACTED = "[redacted]"

_DECODED_BYTES = 8_192
_CHARSET = re.compile(r';[ \t]{0,8}charset="?([\w-]{1,20})', re.ASCII | re.IGNORECASE)
_CHARSETS = frozenset(
    {
        "utf-8",
        "utf8",
        "us-ascii",
        "ascii",
        "iso-8859-1",
        "latin-1",
        "latin1",
        "iso-8859-2",
        "iso-8859-15",
        "windows-1250",
        "windows-1251",
        "windows-1252",
        "koi8-r",
        "utf-16",
        "utf-16le",
        "utf-16be",
        "shift_jis",
        "euc-jp",
        "euc-kr",
        "gb2312",
        "gbk",
        "gb18030",
        "big5",
    }
)
"""Python remembers each other name that it is asked for, for ever."""
_SHORTEST_SECRET = 4
_SECRETS = re.compile(
    r"wh(?:sec|sk)_(?:[A-Za-z0-9+/=_-]|\\/)+|\b(?P<scheme>bearer|basic)\s+(?:[A-Za-z0-9._~+/=-]|\\/){4,}",
    re.IGNORECASE,
)


def charset_of(content_type: str) -> str | None:
    """The charset in a Content-Type header, if there is one; any text may stand in the header."""
    found = _CHARSET.search(content_type)
    return found[1] if found else None


def excerpt(body: bytes, charset: str | None, redact: Collection[str]) -> str:
    """At most 1,024 printable characters of a body, without secrets.

    An unknown charset counts as UTF-8. Characters that it does not decode are replaced. Control
    characters and those that change the direction of text are removed. Each text of `redact` with
    at least 4 characters is replaced, also as JSON writes it, as is what looks like a signing
    secret or a bearer token.
    """
    if not body:
        return ""
    secrets = _spellings(redact)
    text = _redacted(printable(_decoded(body[:_DECODED_BYTES], charset)), secrets)
    if len(body) > _DECODED_BYTES:
        text = _without_part(text, secrets)
    return text[:LONGEST_EXCERPT]


def printable(text: str) -> str:
    """The text in one line without unprintable characters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)


def _decoded(body: bytes, charset: str | None) -> str:
    known = (charset or "").lower()
    return body.decode(known if known in _CHARSETS else "utf-8", "replace")


def _redacted(text: str, secrets: Collection[str]) -> str:
    # Longest first: a secret may contain another one.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return _SECRETS.sub(lambda found: f"{found['scheme'] or ''} {REDACTED}".lstrip(), text)


def _without_part(text: str, secrets: Collection[str]) -> str:
    """A text that was cut, without the beginning of a secret at its end."""
    shown = [each for each in secrets if len(text) - len(each) < LONGEST_EXCERPT]
    parts = (each[:length] for each in shown for length in range(1, len(each)))
    return text[: len(text) - max((len(part) for part in parts if text.endswith(part)), default=0)]


def _spellings(redact: Collection[str]) -> set[str]:
    """Each secret, also as JSON writes it, and a credential also without its scheme (`Bearer`)."""
    texts = {spelling for secret in redact for spelling in (secret, secret.rpartition(" ")[2])}
    quoted = {json.dumps(text)[1:-1] for text in texts}
    texts |= quoted | {text.replace("/", "\\/") for text in quoted}  # some writers escape slashes
    return {text for text in map(printable, texts) if len(text) >= _SHORTEST_SECRET}
