"""Values that a browser keeps for Tidegate, and can neither read nor make.

They are sealed under the vault's keys, as secrets are: every operator opens them, and they survive
a change of those keys as long as the older one is still there.
"""

from __future__ import annotations

import base64
import binascii
from typing import Protocol

from streams.errors import VaultError

MOST_CHARS = 3_800
"""A browser drops a cookie of more than 4096 bytes, with its name and attributes."""

_NO_TENANT = ""


class Vault(Protocol):
    """The keys of the deployment (`streams.vault.key_encryption.Vault`)."""

    def seal(self, tenant_id: str, purpose: str, secret: bytes) -> bytes:
        """Return a secret sealed for one purpose."""

    def open(self, tenant_id: str, purpose: str, sealed: bytes) -> bytes:
        """Return the secret; raises VaultError for one that was not sealed so."""


class SealedCookies:
    """Seals values for one purpose; a value of one purpose never opens under another."""

    def __init__(self, vault: Vault, purpose: str) -> None:
        self._vault = vault
        self._purpose = f"cookie {purpose}"

    def seal(self, value: bytes) -> str:
        """Return a value as the text of a cookie."""
        sealed = self._vault.seal(_NO_TENANT, self._purpose, value)
        return _text(sealed)

    def open(self, text: str) -> bytes | None:
        """Return the value of a cookie; None if it was not sealed here, or not for this purpose.

        Base64 writes the same bytes in several ways: only that of `seal` is taken, so that a value
        which is good once is known by its text.
        """
        if not text or len(text) > MOST_CHARS:
            return None
        try:
            padded = text + "=" * (-len(text) % 4)
            sealed = base64.b64decode(padded, altchars=b"-_", validate=True)
            is_as_sealed = _text(sealed) == text
            return self._vault.open(_NO_TENANT, self._purpose, sealed) if is_as_sealed else None
        except (binascii.Error, ValueError, VaultError):
            return None


def _text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()
