"""Tickets: what a browser has in a URL instead of the token, once and for half a minute.

`EventSource` can send no header. A ticket opens one stream of the jobs that it names, for the one
who asked for it. It is sealed by the vault, so that every replica can open it and nobody can make
one; each replica takes it once.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from streams.api.live.position import DIGEST_BYTES, subject_digest
from streams.errors import VaultError
from streams.process.wall_clock import wall_ms
from streams.vault.key_encryption import Vault

LIFETIME_SECONDS = 30
_TIME_BYTES = 8
_LONGEST = 4096
_TENANT, _PURPOSE = "", "stream ticket"


class Tickets:
    """Gives tickets out, and takes each once."""

    def __init__(self, vault: Vault, clock: Callable[[], int] = wall_ms) -> None:
        self._vault = vault
        self._clock = clock
        self._used: dict[bytes, int] = {}

    def issue(self, digest: bytes, principal_id: str) -> str:
        """Return a principal's ticket for the subject with this digest."""
        until = self._clock() + LIFETIME_SECONDS * 1000
        body = until.to_bytes(_TIME_BYTES) + digest + principal_id.encode()
        sealed = self._vault.seal(_TENANT, _PURPOSE, body)
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def take(self, ticket: str, digest: bytes) -> str | None:
        """Return whose ticket opens a stream of this subject now; it opens no second one."""
        sealed = _decoded(ticket)
        body = None if sealed is None else self._opened(sealed)
        if sealed is None or body is None:
            return None
        until, now = int.from_bytes(body[:_TIME_BYTES]), self._clock()
        self._used = {used: end for used, end in self._used.items() if end > now}
        about, principal = body[_TIME_BYTES:][:DIGEST_BYTES], body[_TIME_BYTES + DIGEST_BYTES :]
        if about != digest or until <= now or sealed in self._used:
            return None
        self._used[sealed] = until
        return principal.decode()

    def _opened(self, sealed: bytes) -> bytes | None:
        try:
            return self._vault.open(_TENANT, _PURPOSE, sealed)
        except VaultError:
            return None


def digest_of_workflow(workflow_id: str, tenant_id: str | None) -> bytes:
    """Return what a ticket is about: a stream that names another tenant is another one."""
    return subject_digest("workflow ticket", [f"{tenant_id or ''}\0{workflow_id}"])


def _decoded(ticket: str) -> bytes | None:
    if len(ticket) > _LONGEST:
        return None
    try:
        padded = ticket + "=" * (-len(ticket) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
