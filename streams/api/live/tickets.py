"""Tickets: what a browser has in a URL instead of the token, once and for half a minute.

`EventSource` can send no header. A ticket opens one stream of the jobs that it names. It is signed
with a key made of the admin token, so that every replica knows it, and each replica takes it once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable

from streams.api.live.position import DIGEST_BYTES, subject_digest
from streams.process.wall_clock import wall_ms

LIFETIME_SECONDS = 30
_TIME_BYTES, _NONCE_BYTES, _MAC_BYTES = 8, 12, 16
_BODY_BYTES = _TIME_BYTES + _NONCE_BYTES + DIGEST_BYTES


class Tickets:
    """Gives tickets out, and takes each once."""

    def __init__(self, token: str, clock: Callable[[], int] = wall_ms) -> None:
        self._key = hmac.digest(token.encode(), b"tidegate stream ticket", hashlib.sha256)
        self._clock = clock
        self._used: dict[bytes, int] = {}

    def issue(self, digest: bytes) -> str:
        """Return a ticket for the subject with this digest."""
        until = self._clock() + LIFETIME_SECONDS * 1000
        body = until.to_bytes(_TIME_BYTES) + secrets.token_bytes(_NONCE_BYTES) + digest
        return base64.urlsafe_b64encode(body + self._mac(body)).rstrip(b"=").decode()

    def take(self, ticket: str, digest: bytes) -> bool:
        """Return whether a ticket opens a stream of this subject now; it opens no second one."""
        body = self._body(ticket)
        if body is None or not hmac.compare_digest(body[-DIGEST_BYTES:], digest):
            return False
        until, now = int.from_bytes(body[:_TIME_BYTES]), self._clock()
        self._used = {used: end for used, end in self._used.items() if end > now}
        if until <= now or body in self._used:
            return False
        self._used[body] = until
        return True

    def _body(self, ticket: str) -> bytes | None:
        """Return what a ticket says; None if it is none of ours."""
        try:
            padded = ticket + "=" * (-len(ticket) % 4)
            raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        body, mac = raw[:_BODY_BYTES], raw[_BODY_BYTES:]
        known = len(raw) == _BODY_BYTES + _MAC_BYTES and hmac.compare_digest(mac, self._mac(body))
        return body if known else None

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, hashlib.sha256)[:_MAC_BYTES]


def digest_of_workflow(workflow_id: str, tenant_id: str | None) -> bytes:
    """Return what a ticket is about: a stream that names another tenant is another one."""
    return subject_digest("workflow ticket", [f"{tenant_id or ''}\0{workflow_id}"])
