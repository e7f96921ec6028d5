"""Tokens of the API: `tg_<id>_<secret>_<check>`.

The prefix lets scanners of source code find a token that leaked; the check finds a typing error
before anything is compared. Only a digest of the secret is kept. A secret has 256 random bits, so
one round of SHA-256 protects it, and a slow hash would only make calls slow.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import zlib
from dataclasses import dataclass, field

PREFIX = "tg"

_ID_BYTES, _SECRET_BYTES = 10, 32
_FORM = re.compile(rf"({PREFIX}_([0-9a-v]{{16}})_([0-9a-v]{{52}}))_([0-9a-f]{{8}})")
_NO_DIGEST = bytes(hashlib.sha256().digest_size)


@dataclass(frozen=True, slots=True)
class Token:
    """A token in its parts; it is shown once, when it is minted."""

    id: str
    secret: str = field(repr=False)

    def __str__(self) -> str:
        """The token without its secret, so that no log shows it by accident."""
        return f"{PREFIX}_{self.id}_***"

    @property
    def text(self) -> str:
        """The token as its holder sends it."""
        body = f"{PREFIX}_{self.id}_{self.secret}"
        return f"{body}_{_check(body)}"

    @property
    def digest(self) -> bytes:
        """What is kept of the secret."""
        return hashlib.sha256(self.secret.encode()).digest()

    def matches(self, digest: bytes | None) -> bool:
        """Return whether a digest is of this secret; None, for an unknown id, takes as long."""
        is_same = hmac.compare_digest(self.digest, _NO_DIGEST if digest is None else digest)
        return is_same and digest is not None


def mint(id_: str | None = None) -> Token:
    """Return a new token, with this id if one is given."""
    return Token(id_ or _random(_ID_BYTES), _random(_SECRET_BYTES))


def keyed_id(principal: str, key: str) -> str:
    """Return the id of the one token that a principal makes under an idempotency key."""
    told = b"\0".join(each.encode(errors="surrogatepass") for each in (principal, key))
    return _encoded(hashlib.blake2b(told, digest_size=_ID_BYTES, person=b"token-key").digest())


def parse(text: str) -> Token | None:
    """Return the parts of a token; None if the text has another form or its check is wrong."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    body, id_, secret, check = found.groups()
    return Token(id_, secret) if _check(body) == check else None


def _random(size: int) -> str:
    return _encoded(secrets.token_bytes(size))


def _encoded(raw: bytes) -> str:
    return base64.b32hexencode(raw).decode().rstrip("=").lower()


def _check(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
