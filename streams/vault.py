"""Raw bodies and secrets are stored sealed: AES-256-GCM under keys derived for each tenant.

The tenant's key is HKDF-SHA256 (RFC 5869) of the key-encryption key. What a ciphertext is for
(tenant, event, chunk; or tenant, source) is its associated data: moved elsewhere it does not
open (NIST SP 800-38D for the 96-bit random nonce).
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from streams.errors import ConfigError, VaultError

CHUNK_BYTES = 512 * 1024
_NONCE = 12
KEY_BYTES = 32


class Vault:
    """Seals and opens under one key-encryption key of 32 bytes; safe in threads."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.key_id = "kek_" + hashlib.sha256(b"tidegate key id" + key).hexdigest()[:12]
        self._cipher = lru_cache(maxsize=4096)(self._derive)

    def seal(self, tenant_id: str, purpose: str, plain: bytes) -> bytes:
        """Nonce and ciphertext; `purpose` must be given again to open it."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher(tenant_id).encrypt(nonce, plain, self._bind(tenant_id, purpose))

    def open(self, tenant_id: str, purpose: str, sealed: bytes) -> bytes:
        """The plain bytes.

        Raises:
            VaultError: another key, tenant or purpose, or damaged bytes.
        """
        nonce, ciphertext = sealed[:_NONCE], sealed[_NONCE:]
        try:
            return self._cipher(tenant_id).decrypt(
                nonce, ciphertext, self._bind(tenant_id, purpose)
            )
        except (InvalidTag, ValueError) as error:
            raise VaultError(
                f"cannot open {purpose} of tenant {tenant_id} under key {self.key_id}: "
                "it was sealed under another key, or is damaged"
            ) from error

    def _derive(self, tenant_id: str) -> AESGCM:
        info = b"tidegate tenant key\0" + tenant_id.encode()
        return AESGCM(HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(self._key))

    def _bind(self, tenant_id: str, purpose: str) -> bytes:
        return "\0".join((tenant_id, purpose, self.key_id)).encode()


def chunk_purpose(event_id: str, index: int) -> str:
    """Associated data of one chunk of a raw body."""
    return f"payload {event_id} {index}"


def read_key(path: Path | None, setting: str) -> bytes:
    """A 32-byte key from a file.

    Raises:
        ConfigError: no path, no file, or another length; names the setting.
    """
    if path is None:
        raise ConfigError(
            f"{setting} is not set: name a file of {KEY_BYTES} random bytes "
            f"(`head -c {KEY_BYTES} /dev/urandom > FILE`)"
        )
    try:
        key = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read {path}: {error.strerror}") from error
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{setting}: {path} has {len(key)} bytes, not {KEY_BYTES}")
    return key
